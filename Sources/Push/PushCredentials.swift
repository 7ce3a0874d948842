/// One app's credentials for each provider: contents of files, not paths.
package struct AppPushCredentials: Sendable, Hashable {
    package let apns: APNsCredentials?
    package let fcm: FCMCredentials?

    package init(apns: APNsCredentials?, fcm: FCMCredentials?) {
        self.apns = apns
        self.fcm = fcm
    }
}

/// A token key of Apple's developer account (Apple, "Establishing a token-based connection to APNs").
package struct APNsCredentials: Sendable, Hashable {
    /// The text of `AuthKey_….p8`.
    package let keyPEM: String
    package let keyID: String
    package let teamID: String
    /// The app's bundle id.
    package let topic: String
    /// A server in place of both of Apple's.
    package let url: String?

    package init(keyPEM: String, keyID: String, teamID: String, topic: String, url: String? = nil) {
        self.keyPEM = keyPEM
        self.keyID = keyID
        self.teamID = teamID
        self.topic = topic
        self.url = url
    }
}

/// A service account of a Firebase project.
package struct FCMCredentials: Sendable, Hashable {
    /// The content of the JSON file that Google's console hands out.
    package let serviceAccountJSON: [UInt8]
    /// A server in place of Google's, for messages and, as `<url>/token`, for access tokens.
    package let url: String?

    package init(serviceAccountJSON: [UInt8], url: String? = nil) {
        self.serviceAccountJSON = serviceAccountJSON
        self.url = url
    }
}
