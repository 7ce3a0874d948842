// Badge, DeviceEnvironment, DeepLinkTree and the other values shared with the server: an app imports only
// CampanileClient.
@_exported public import CampanileCore
