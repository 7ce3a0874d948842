/// The app and its notification service extension share it: through it both refuse the same older badges. It stands in the
/// entitlements of both.
let appGroup = "group.com.example.campanile"
