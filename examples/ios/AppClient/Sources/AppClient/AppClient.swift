@_exported import CampanileClient
