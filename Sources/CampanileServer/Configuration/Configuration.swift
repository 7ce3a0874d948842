package import CampanileCore
package import FoundationEssentials
package import HTTPEngine
package import Logging
package import Push

/// All settings of a server, read at start: the command line over the environment over the file
/// over the defaults here.
///
/// A value that exists is valid:
/// ``load(file:fileIsRequired:environment:flags:)`` makes one or names every problem. Its secrets don't print (``Secret``),
/// so it may be printed whole. Paths of files are as written: a relative one is relative to the program's working
/// directory, in the file as well.
package struct Configuration: Sendable, Equatable {
    /// The address to listen on: an IPv4 or IPv6 address, or a host name.
    package var host = "127.0.0.1"
    /// The TCP port to listen on. 0 lets the system choose a free one.
    package var port = 3001
    /// The SQLite file.
    package var database = "data/campanile.sqlite"
    /// True if the server copies the database's log into its file. Another program may: one that replicates the log.
    package var databaseCheckpoints = true
    /// The longest that a read of a PostgreSQL database may take, its wait for a connection among that.
    package var databaseReadMilliseconds: Int64 = 2_000
    package var jwt = JWT()
    /// Texts that mark a User-Agent as native if it contains them, beside `Hotwire Native` and `Turbo Native`.
    package var nativeUserAgents: [String] = []
    package var badge = Badge()
    /// The providers of each app, by name. The sandbox takes the pushes of an app that isn't here or lacks a provider.
    package var apps: [String: App] = [:]
    package var push = Push()
    package var streams = Streams()
    package var cable = Cable()
    /// The time and the size of what is kept of apps' broadcasts.
    package var broadcasts = BroadcastKeeping()
    /// Origins (RFC 6454 section 6.2, `https://app.example.com`) whose pages may call from another origin.
    package var allowedOrigins: [String] = []
    /// The proxies whose fields about a client the server believes (`X-Forwarded-For`, `X-Forwarded-Proto`).
    package var trustedProxies: [IPNetwork] = []
    /// The declared tree of screens, for checking deep links. Empty if none is declared.
    package var deepLinks = DeepLinkTree()
    /// The defaults for the notifications of a category, by name.
    package var categories: [ExactText: NotificationCategory] = [:]
    /// True to refuse an undeclared category.
    package var categoriesOnly = false
    package var pathConfiguration = PathConfiguration()
    /// True to serve the console's pages.
    package var console = false
    package var metrics = Metrics()
    /// The least level of the log's lines.
    package var logLevel = Logger.Level.info
    package var backup = Backup()
    package var retention = Retention()
    /// The environment's variables with the settings' prefix that aren't settings, for a notice to people.
    package var passedOver = PassedOver()

    package init() {}

    /// Names of variables, in order.
    package struct PassedOver: Sendable, Equatable {
        /// Of unknown origin.
        package var unknown: [String] = []
        /// From Kubernetes or Docker, about the services beside a container.
        package var serviceLinks: [String] = []

        package init(unknown: [String] = [], serviceLinks: [String] = []) {
            self.unknown = unknown
            self.serviceLinks = serviceLinks
        }
    }

    /// The settings for verifying user tokens. Without ``secret`` and ``jwksFile`` the server makes a secret of its
    /// own.
    package struct JWT: Sendable, Equatable {
        /// The HS256 key, at least 32 bytes (RFC 7518 section 3.2). Never together with ``jwksFile``.
        package var secret: Secret?
        /// A file with a JWK set (RFC 7517) of RS256 and ES256 keys.
        package var jwksFile: String?
        /// The required value of a token's `iss`, if set.
        package var issuer: String?
        /// The required content of a token's `aud`, if set.
        package var audience: String?

        package init() {}
    }

    package struct Badge: Sendable, Equatable {
        package var policy = BadgePolicy.unread
        /// True if reading on one device sends the new number to the others.
        package var syncOnRead = true
        /// The badge pushes that wake the iOS app.
        package var contentAvailable = ContentAvailable.whenDismissing
        /// True if Android devices get badge pushes, as data-only messages.
        package var androidData = false
        /// True to hold a 0 back while unread notifications remain: iOS empties its notification centre at 0.
        package var neverZeroWhileOthersRemain = false
        /// True if a native app's first page of the list clears the badge.
        package var clearOnNativeList = true

        package init() {}
    }

    /// One app. The sandbox replaces a missing provider; the top level has the values of other missing settings.
    package struct App: Sendable, Equatable {
        package var apns: APNs?
        package var fcm: FCM?
        /// True if alerts to iOS run the app's notification service extension (`mutable-content`): `apns.mutable_content`,
        /// which also counts where Firebase delivers to iOS and there are no credentials of Apple's.
        package var mutableContent = false
        package var deepLinks: DeepLinkTree?
        package var categories: [ExactText: NotificationCategory]?
        package var categoriesOnly: Bool?
        package var pathConfiguration: PathConfiguration?
        package var badgePolicy: BadgePolicy?
        /// The keys of its own pages and senders.
        package var cable = CableKeys()

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
        /// The server to use instead of Apple's production and sandbox hosts; `https`, no path.
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
        /// The server to use instead of Google's host; `https`, no path.
        package var url: URL?

        package init(serviceAccountFile: String, url: URL? = nil) {
            self.serviceAccountFile = serviceAccountFile
            self.url = url
        }
    }

    package struct Push: Sendable, Equatable {
        /// A PEM file of certificates to trust for the providers' hosts instead of the system's.
        package var caFile: String?
        /// The treatment of a push that was sent and not answered.
        package var unanswered = Unanswered.resend
        /// The percentage of an app's device tokens that may die within a minute; if more do, the server believes none
        /// of them dead.
        package var deadTokenPercent = 10

        package init() {}

        package enum Unanswered: String, Sendable, CaseIterable {
            /// Send it again with the same id: it may arrive twice.
            case resend
            /// Give it up: it may be lost.
            case giveUp = "give_up"
        }
    }

    /// Realtime streams of every kind.
    package struct Streams: Sendable, Equatable {
        /// The cookie in which a browser may send its user token when it opens a stream; nil for none.
        package var cookie: String?
        /// The most open streams of one user.
        package var perUser = Limits.streamsPerUser
        /// The most open streams in total.
        package var total = Limits.streamsInTotal

        package init() {}
    }

    /// Realtime streams in Rails' ActionCable protocol.
    package struct Cable: Sendable, Equatable {
        /// The keys of all apps that have none of their own.
        package var keys = CableKeys()
        /// The name of a user's stream; `{user_id}` stands for the user's id, `{app}` for the user's app.
        package var streamName = "notifications:{user_id}"
        /// True to accept a connection without a user token; it may subscribe to signed streams only.
        package var signedStreamsOnly = false

        package init() {}
    }

    /// The keys that an app's pages and senders show on the cable.
    package struct CableKeys: Sendable, Equatable {
        /// The key for verifying signed stream names. Never together with ``secretKeyBase``.
        package var signedStreamKey: Secret?
        /// The `secret_key_base` of a Rails application, from which to derive that key.
        package var secretKeyBase: Secret?
        /// The secret from which AnyCable's gem derives the key that it broadcasts with.
        package var anyCableSecret: Secret?
        /// Where the key of streams is written, and where the secret is.
        var (streamOrigin, secretOrigin): (ConfigurationProblems.Origin?, ConfigurationProblems.Origin?)

        package init() {}

        package var signsStreams: Bool { signedStreamKey != nil || secretKeyBase != nil }
    }

    /// The path configurations of Hotwire Native apps, by version name (`v1`).
    package struct PathConfiguration: Sendable, Equatable {
        package var ios: [String: Version] = [:]
        package var android: [String: Version] = [:]

        package init() {}

        /// The sign-in pages of many Rails apps: the articles' own, Rails 8's generated authentication, Devise.
        package static let standardSignIn = ["^/sign_in", "^/sign_up", "^/session/new", "^/users/sign_in", "^/users/sign_up"]

        package struct Version: Sendable, Equatable {
            /// The app's own, passed on unchanged.
            package var settings: [String: Value]
            /// `tabs` of the settings.
            package var tabs: [Tab]
            /// Regular expressions for the pages where a session begins, to search for in a path with its query.
            package var signIn: [String]
            /// In order; if several match a path, later ones win.
            package var rules: [Rule]

            package init(
                settings: [String: Value] = [:], tabs: [Tab] = [], signIn: [String] = standardSignIn, rules: [Rule] = []
            ) {
                self.settings = settings
                self.tabs = tabs
                self.signIn = signIn
                self.rules = rules
            }
        }

        /// One tab of the app's bar, with a title or an icon at least.
        package struct Tab: Sendable, Equatable {
            package var title: String?
            package var icon: String?
            package var selectedIcon: String?
            package var path: String
            /// True if it shows the inbox.
            package var isNotifications = false
        }

        package struct Rule: Sendable, Equatable {
            /// Regular expressions, to search for in a path with its query.
            package var patterns: [String]
            package var properties: [String: Value]

            package init(patterns: [String], properties: [String: Value]) {
                self.patterns = patterns
                self.properties = properties
            }
        }
    }

    package struct Metrics: Sendable, Equatable {
        /// The bearer token for monitoring, if set.
        package var token: Secret?
        /// A separate port for monitoring, on the same host, if set.
        package var port: Int?

        package init() {}
    }

    /// The server's own backups.
    package struct Backup: Sendable, Equatable {
        /// The folder for them, if the server is to make any.
        package var directory: String?
        /// The time from one to the next.
        package var everyMilliseconds: Int64 = 24 * 3_600_000
        /// The number to keep, the newest.
        package var keep = 7

        package init() {}
    }

    /// The times and the numbers for which things are kept.
    package struct Retention: Sendable, Equatable {
        /// The age at which a notification goes; nil: never.
        package var notificationsMilliseconds: Int64?
        /// The number of notifications that an inbox keeps, the newest; nil keeps all.
        package var perInbox: Int?
        /// The age of a notification at which its settled deliveries go.
        package var deliveriesMilliseconds: Int64 = 30 * 24 * 3_600_000
        /// For how long a device wasn't seen whose token goes; nil: none goes.
        package var deviceTokensMilliseconds: Int64? = 270 * 24 * 3_600_000
        /// For how long the answer to an Idempotency-Key that begins with `outbox:` is remembered.
        package var outboxKeysMilliseconds: Int64 = 30 * 24 * 3_600_000

        package init() {}
    }

    /// Any JSON value (RFC 8259), for settings of the user's own shape.
    package indirect enum Value: Sendable, Equatable {
        case null
        case bool(Bool)
        case integer(Int)
        case number(Double)
        case text(String)
        case list([Value])
        case object([String: Value])
    }

    /// The flags of the command line. A missing flag leaves the setting to the environment, the file and the default.
    package struct Flags: Sendable {
        package var host: String?
        package var port: Int?
        package var database: String?
        /// True if `database` may be another than that of the file or the environment: somebody has typed it for one command.
        package var isForOneCommand = false
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
