import HTTPEngine

/// Every route of the server, on one page. openapi.yaml says the same; a test compares them in both directions.
struct Routes {
    let list: NotificationList
    let notifications: NotificationResource
    let devices: DeviceTokenResource
    let badge: BadgeResource
    let users: UserResource
    let streams: StreamResource
    let cable: CableResource
    let broadcasts: BroadcastResource
    let deliveries: DeliveryResource
    let sandbox: SandboxResource
    let deepLinks: DeepLinkResource
    let pathConfigurations: PathConfigurationResource
    let client: ClientResource
    let assets: AssetResource
    let health: HealthResource
    let metrics: MetricsResource
    let operate: OperateResource

    var all: [Route<Endpoint>] {
        [
            // The inbox
            Route(.get, "/notifications", operationID: "listNotifications", handler: .user(list.get)),
            Route(.post, "/notifications", operationID: "createNotification", handler: .producer(notifications.create)),
            Route(
                .delete, "/notifications", operationID: "withdrawNotifications",
                handler: .producer(notifications.withdrawAll)),
            Route(
                .post, "/notifications/mark_all_read", operationID: "markAllRead",
                handler: .user(notifications.markAllRead)),
            Route(
                .post, "/notifications/reconcile", operationID: "reconcileNotifications",
                handler: .user(notifications.reconcile)),
            Route(.get, "/notifications/{id}", operationID: "getNotification", handler: .user(notifications.get)),
            Route(
                .patch, "/notifications/{id}", operationID: "updateNotification",
                handler: .userOrProducer(user: notifications.patch, producer: notifications.edit)),
            Route(
                .delete, "/notifications/{id}", operationID: "deleteNotification",
                handler: .userOrProducer(user: notifications.delete, producer: notifications.withdraw)),
            Route(
                .get, "/notifications/{id}/deliveries", operationID: "listDeliveries",
                handler: .producer(deliveries.list)),
            // The devices
            Route(.get, "/device_tokens", operationID: "listDeviceTokens", handler: .user(devices.list)),
            Route(.post, "/device_tokens", operationID: "registerDeviceToken", handler: .user(devices.register)),
            Route(.delete, "/device_tokens/{token}", operationID: "deleteDeviceToken", handler: .user(devices.delete)),
            // The badge
            Route(.get, "/badge", operationID: "getBadge", handler: .user(badge.get)),
            Route(.delete, "/badge", operationID: "clearBadge", handler: .user(badge.delete)),
            // An inbox that the app keeps itself
            Route(.put, "/users/{user_id}/badge", operationID: "giveBadge", handler: .producer(users.giveBadge)),
            Route(.post, "/users/{user_id}/reads", operationID: "markReadOfUser", handler: .producer(users.markRead)),
            // What happens, as it happens
            Route(.get, "/badge/stream", operationID: "streamBadge", handler: .listener(streams.badge)),
            Route(
                .get, "/notifications/stream", operationID: "streamNotifications",
                handler: .listener(streams.notifications)),
            Route(.get, "/cable", operationID: "openCable", handler: .listener(cable.open)),
            Route(.post, "/broadcasts", operationID: "broadcast", handler: .broadcaster(broadcasts.create)),
            Route(.get, "/broadcasts/position", operationID: "getBroadcastPosition", handler: .broadcaster(broadcasts.position)),
            Route(.post, "/_broadcast", operationID: "broadcastInAnyCablesForm", handler: .anyCable(broadcasts.takeAnyCables)),
            Route(.post, "/stream_tokens", operationID: "createStreamToken", handler: .user(streams.createToken)),
            // The sandbox
            Route(.get, "/sandbox/pushes", operationID: "listSandboxPushes", handler: .producer(sandbox.list)),
            // What an app is told about itself
            Route(.get, "/deep_links", operationID: "listDeepLinks", handler: .anyone(deepLinks.get)),
            Route(
                .get, "/configurations/{name}", operationID: "getPathConfiguration",
                handler: .anyone(pathConfigurations.get)),
            Route(.get, "/client", operationID: "getClient", handler: .anyone(client.get)),
            // Pages
            Route(.get, "/", operationID: "getRoot", handler: .anyone(assets.root)),
            Route(.get, "/assets/{name}", operationID: "getAsset", handler: .anyone(assets.get)),
            Route(.get, "/console", operationID: "getConsole", handler: .anyone(assets.console)),
            Route(.get, "/docs", operationID: "getReference", handler: .anyone(assets.reference)),
            // An app for its operators
            Route(.get, "/operate/overview", operationID: "getOverview", handler: .operator(operate.overview)),
            Route(.get, "/operate/deliveries", operationID: "searchDeliveries", handler: .operator(operate.deliveries)),
            Route(.get, "/operate/users/{user_id}", operationID: "getUser", handler: .operator(operate.user)),
            Route(
                .get, "/operate/users/{user_id}/notifications", operationID: "listNotificationsOfUser",
                handler: .operator(operate.notifications)),
            // The server itself
            Route(.get, "/healthz", operationID: "getHealth", handler: .anyone(health.health)),
            Route(.get, "/readyz", operationID: "getReadiness", handler: .observer(health.readiness)),
            Route(.get, "/openapi.yaml", operationID: "getContract", handler: .anyone(health.description)),
        ]
    }

    /// Those of `metrics.port`, or of the main port without it.
    var monitoring: [Route<Endpoint>] {
        [Route(.get, "/metrics", operationID: "getMetrics", handler: .watcher(metrics.get))]
    }
}
