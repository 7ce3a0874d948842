package import CampanileCore
package import Foundation
package import HTTPEngine

/// All settings of a server, read once at start and never changed: the command line over the environment over the
/// file over the defaults that stand here.
///
/// A value that exists is valid: ``load(file:fileIsRequired:environment:flags:)`` makes one or names every problem.
/// Secrets in it hide themselves (``Secret``), so that it may be printed whole. Paths of files are as they were
/// written: a relative one is relative to the directory the program was started in, wherever it was written.
package struct Configuration: Sendable, Equatable {
    /// The address to listen on: an IPv4 or IPv6 address, or a host name.
    package var host = "127.0.0.1"
    /// The TCP port to listen on. 0 lets the system choose a free one.
    package var port = 3001
    /// The SQLite file.
    package var database = "data/campanile.sqlite"
    package var jwt = JWT()
    /// Texts that mark a User-Agent as native where they occur in it, beside `Hotwire Native` and `Turbo Native`.
    package var nativeUserAgents: [String] = []
    package var badge = Badge()
    /// By app name: how its devices are pushed to. An app that isn't here, or has no provider, is pushed to by the
    /// sandbox.
    package var apps: [String: App] = [:]
    package var push = Push()
    package var streams = Streams()
    package var cable = Cable()
    /// Origins (RFC 6454 section 6.2, `https://app.example.com`) whose pages may call from another origin.
    package var allowedOrigins: [String] = []
    /// The proxies that are believed what they say of a client (`X-Forwarded-For`, `X-Forwarded-Proto`).
    package var trustedProxies: [IPNetwork] = []
    /// The declared tree of screens that deep links are checked against. Empty: nothing is declared.
    package var deepLinks = DeepLinkTree()
    /// By category name: what a notification of it gets where the producer says nothing.
    package var categories: [ExactText: NotificationCategory] = [:]
    /// Whether a category that isn't declared is refused.
    package var categoriesOnly = false
    package var pathConfiguration = PathConfiguration()
    /// Whether the console's pages are served.
    package var console = false
    package var metrics = Metrics()
    /// The environment's variables that begin like settings and are none: for people to be told.
    package var passedOver = PassedOver()

    package init() {}

    /// Names of variables, in order.
    package struct PassedOver: Sendable, Equatable {
        /// Nobody knows whose.
        package var unknown: [String] = []
        /// What Kubernetes and Docker tell a container of the services beside it.
        package var serviceLinks: [String] = []

        package init(unknown: [String] = [], serviceLinks: [String] = []) {
            self.unknown = unknown
            self.serviceLinks = serviceLinks
        }
    }

    /// How user tokens are verified. With neither ``secret`` nor ``jwksFile`` the server makes a secret of its own.
    package struct JWT: Sendable, Equatable {
        /// The HS256 key, at least 32 bytes (RFC 7518 section 3.2). Never together with ``jwksFile``.
        package var secret: Secret?
        /// A file with a JWK set (RFC 7517) of RS256 and ES256 keys.
        package var jwksFile: String?
        /// What a token's `iss` must be, if set.
        package var issuer: String?
        /// What a token's `aud` must hold, if set.
        package var audience: String?

        package init() {}
    }

    package struct Badge: Sendable, Equatable {
        package var policy = BadgePolicy.unread
        /// Whether reading on one device tells the new number to the others.
        package var syncOnRead = true
        /// Whether a clearing push to iOS carries `content-available`.
        package var contentAvailable = true
        /// Whether Android devices get badge pushes, as data-only messages.
        package var androidData = false
        /// Whether a 0 is kept back while unread notifications remain: iOS empties its notification centre at 0.
        package var neverZeroWhileOthersRemain = false
        /// Whether a native app's first page of the list clears the badge.
        package var clearOnNativeList = true

        package init() {}
    }

    /// One app. A provider that is missing is stood in for by the sandbox; what else is missing, the top level has.
    package struct App: Sendable, Equatable {
        package var apns: APNs?
        package var fcm: FCM?
        package var deepLinks: DeepLinkTree?
        package var categories: [ExactText: NotificationCategory]?
        package var categoriesOnly: Bool?
        package var pathConfiguration: PathConfiguration?

        package init(apns: APNs? = nil, fcm: FCM? = nil) {
            self.apns = apns
            self.fcm = fcm
        }
    }

    /// Token-based credentials of Apple's push service.
    package struct APNs: Sendable, Equatable {
        /// The `.p8` file: a PKCS #8 private key in PEM.
        package var keyFile: String
        /// The identifier of that key.
        package var keyID: String
        /// The identifier of the developer team.
        package var teamID: String
        /// The bundle identifier of the app.
        package var topic: String
        /// Where to connect instead of Apple's production and sandbox hosts; `https`, no path.
        package var url: URL?

        package init(keyFile: String, keyID: String, teamID: String, topic: String, url: URL? = nil) {
            self.keyFile = keyFile
            self.keyID = keyID
            self.teamID = teamID
            self.topic = topic
            self.url = url
        }
    }

    /// Credentials of Firebase Cloud Messaging.
    package struct FCM: Sendable, Equatable {
        /// The JSON file of a service account.
        package var serviceAccountFile: String
        /// Where to connect instead of Google's host; `https`, no path.
        package var url: URL?

        package init(serviceAccountFile: String, url: URL? = nil) {
            self.serviceAccountFile = serviceAccountFile
            self.url = url
        }
    }

    package struct Push: Sendable, Equatable {
        /// A PEM file of certificates to trust for the providers' hosts instead of the system's.
        package var caFile: String?
        /// What the server does with a push that was sent and not answered.
        package var unanswered = Unanswered.resend
        /// The percentage of an app's device tokens that may die within a minute; if more do, none is believed to be dead.
        package var deadTokenPercent = 10

        package init() {}

        package enum Unanswered: String, Sendable, CaseIterable {
            /// It goes again with the same id: it may arrive twice.
            case resend
            /// It is given up: it may be lost.
            case giveUp = "give_up"
        }
    }

    /// Realtime streams of every kind.
    package struct Streams: Sendable, Equatable {
        /// The cookie in which a browser may send its user token when it opens a stream; nil: none.
        package var cookie: String?
        /// Open streams of one user at once.
        package var perUser = Limits.streamsPerUser
        /// Open streams in total.
        package var total = Limits.streamsInTotal

        package init() {}
    }

    /// Realtime streams in Rails' ActionCable protocol.
    package struct Cable: Sendable, Equatable {
        /// The key that signed stream names are verified with. Never together with ``secretKeyBase``.
        package var signedStreamKey: Secret?
        /// The `secret_key_base` of a Rails application, which that key can be derived from.
        package var secretKeyBase: Secret?
        /// The name of a user's stream; `{user_id}` stands for the user's id, `{app}` for the user's app.
        package var streamName = "notifications:{user_id}"
        /// Whether a connection without a user token is welcomed, and may subscribe to signed streams only.
        package var signedStreamsOnly = false

        package init() {}
    }

    /// The path configurations of Hotwire Native apps, by version name (`v1`).
    package struct PathConfiguration: Sendable, Equatable {
        package var ios: [String: Version] = [:]
        package var android: [String: Version] = [:]

        package init() {}

        package struct Version: Sendable, Equatable {
            /// Free for the app: given to it as they stand.
            package var settings: [String: Value]
            /// `tabs` of the settings.
            package var tabs: [Tab]
            /// In order; where several match a path, later ones win.
            package var rules: [Rule]

            package init(settings: [String: Value] = [:], tabs: [Tab] = [], rules: [Rule] = []) {
                self.settings = settings
                self.tabs = tabs
                self.rules = rules
            }
        }

        /// One tab of the app's bar, with a title or an icon at least.
        package struct Tab: Sendable, Equatable {
            package var title: String?
            package var icon: String?
            package var selectedIcon: String?
            package var path: String
            /// Whether it is the one that shows the inbox.
            package var isNotifications = false
        }

        package struct Rule: Sendable, Equatable {
            /// Regular expressions, each searched for in a path with its query.
            package var patterns: [String]
            package var properties: [String: Value]

            package init(patterns: [String], properties: [String: Value]) {
                self.patterns = patterns
                self.properties = properties
            }
        }
    }

    package struct Metrics: Sendable, Equatable {
        /// The bearer token of those who watch the server, if set.
        package var token: Secret?
        /// A port of their own, on the same host, if set.
        package var port: Int?

        package init() {}
    }

    /// A value whose shape is the user's choice: what JSON can say (RFC 8259).
    package indirect enum Value: Sendable, Equatable {
        case null
        case bool(Bool)
        case integer(Int)
        case number(Double)
        case text(String)
        case list([Value])
        case object([String: Value])
    }

    /// What the command line said. A missing flag leaves the setting to the environment, the file and the default.
    package struct Flags: Sendable {
        package var host: String?
        package var port: Int?
        package var database: String?
        /// Replaces `apns.url` of every app that has `apns`.
        package var apnsURL: String?
        /// Replaces `fcm.url` of every app that has `fcm`.
        package var fcmURL: String?
        package var pushCA: String?

        package init(
            host: String? = nil, port: Int? = nil, database: String? = nil,
            apnsURL: String? = nil, fcmURL: String? = nil, pushCA: String? = nil
        ) {
            self.host = host
            self.port = port
            self.database = database
            self.apnsURL = apnsURL
            self.fcmURL = fcmURL
            self.pushCA = pushCA
        }
    }
}
