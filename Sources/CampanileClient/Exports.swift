// Badge, DeviceEnvironment, DeepLinkTree and the other values that both sides speak: an app imports CampanileClient alone.
@_exported public import CampanileCore
