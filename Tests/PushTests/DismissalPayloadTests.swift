import CampanileCore
import Testing

@testable import Push

@Suite("Pushes that take notifications away") struct DismissalPayloadTests {
    private static func payload(
        _ kind: PushMessage.Kind = .badge, _ dismissal: Dismissal?, count: Int64 = 3, _ platform: DevicePlatform = .ios,
        _ provider: DeviceProvider = .apns, _ contentAvailable: ContentAvailable = .whenDismissing
    ) -> String {
        let message = Pushes.message(
            kind, token: "t", count: count, provider: provider, platform: platform, dismissal: dismissal)
        let options = PayloadOptions(contentAvailable: contentAvailable, topics: [:])
        let request =
            provider == .apns ? APNsPayload.request(message, options: options) : FCMPayload.request(message, options: options)
        return String(decoding: request.body, as: UTF8.self)
    }

    private static let (first, second) = (Pushes.id(8).description, Pushes.id(9).description)
    private static let both = Dismissal.ids([Pushes.id(8), Pushes.id(9)])

    @Test("a badge push to iOS names them and wakes the app; one that names none wakes it only if it always does")
    func badgePushes() {
        #expect(
            Self.payload(.badge, Self.both)
                == #"{"aps":{"badge":3,"content-available":1},"badgeVersion":42,"dismissed":["\#(Self.first)","\#(Self.second)"]}"#
        )
        #expect(
            Self.payload(.badge, .through(Pushes.id(8)))
                == #"{"aps":{"badge":3,"content-available":1},"badgeVersion":42,"dismissedThrough":"\#(Self.first)"}"#)
        for count: Int64 in [0, 3] {
            #expect(Self.payload(.badge, nil, count: count) == #"{"aps":{"badge":\#(count)},"badgeVersion":42}"#)
            #expect(
                Self.payload(.badge, nil, count: count, .ios, .apns, .always)
                    == #"{"aps":{"badge":\#(count),"content-available":1},"badgeVersion":42}"#)
            #expect(
                Self.payload(.badge, nil, count: count, .ios, .apns, .never) == #"{"aps":{"badge":\#(count)},"badgeVersion":42}"#)
        }
    }

    @Test("Firebase hands the same to an iPhone, and to Android text: with the number for an app that draws it, or without")
    func firebase() {
        #expect(
            Self.payload(.badge, .through(Pushes.id(8)), .ios, .fcm).contains(
                #""payload":{"aps":{"badge":3,"content-available":1},"badgeVersion":42,"dismissedThrough":"\#(Self.first)"}"#))
        let data = #""dismissed":"\#(Self.first),\#(Self.second)""#
        #expect(
            Self.payload(.badge, Self.both, .android, .fcm)
                == #"{"message":{"token":"t","data":{"type":"badge","count":"3","badgeVersion":"42",\#(data)}}}"#)
        #expect(
            Self.payload(.dismiss, Self.both, .android, .fcm)
                == #"{"message":{"token":"t","data":{"type":"dismiss",\#(data)}}}"#)
        #expect(
            Self.payload(.dismiss, .through(Pushes.id(9)), .android, .fcm)
                == #"{"message":{"token":"t","data":{"type":"dismiss","dismissedThrough":"\#(Self.second)"}}}"#)
    }

    @Test("an alert names them beside its own keys, and runs the extension on iOS")
    func alerts() {
        let ios = Self.payload(.alert(Pushes.alert()), Self.both)
        #expect(ios.contains(#""mutable-content":1"#) && ios.contains(#""dismissed":["\#(Self.first)","\#(Self.second)"]"#))
        #expect(!ios.contains("content-available"))
        #expect(!Self.payload(.alert(Pushes.alert()), nil).contains("mutable-content"))
        let android = Self.payload(.alert(Pushes.alert()), Self.both, .android, .fcm)
        #expect(android.contains(#""dismissed":"\#(Self.first),\#(Self.second)""#) && !android.contains("mutable"))
    }

    @Test(
        "they are the first thing to go from an alert that is too long, up to the last byte",
        arguments: [(DevicePlatform.ios, DeviceProvider.apns), (.android, .fcm), (.ios, .fcm)])
    func tooLong(_ platform: DevicePlatform, _ provider: DeviceProvider) throws {
        let dismissal = Dismissal.ids((0..<20).map { Pushes.id($0) })
        func message(_ body: String) -> PushMessage {
            Pushes.message(
                .alert(Pushes.alert(body: body)), token: "", provider: provider, platform: platform, dismissal: dismissal)
        }
        func size(_ message: PushMessage) -> Int {
            let options = PayloadOptions(topics: [:])
            return
                (provider == .apns
                ? APNsPayload.request(message, options: options) : FCMPayload.request(message, options: options)).body.count
        }
        let room = 4_096 - size(message(""))
        // An empty body may be left out of the JSON.
        let exact = (0...room).last {
            size(message(String(repeating: "x", count: $0)).fitted()) <= 4_096
                && message(String(repeating: "x", count: $0)).fitted().dismissal == dismissal
        }
        let longest = try #require(exact)
        #expect(size(message(String(repeating: "x", count: longest)).fitted()) == 4_096)
        let longer = message(String(repeating: "x", count: longest + 1)).fitted()
        #expect(longer.dismissal == nil)
        #expect(size(longer) < 4_096, "and the body is whole")
    }
}
