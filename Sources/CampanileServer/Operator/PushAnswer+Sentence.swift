import CampanileCore
import Push

/// The meaning of a provider's answer to a test push, and what to do.
extension PushAnswer {
    var isAccepted: Bool {
        switch outcome {
        case .accepted, .acceptedElsewhere: true
        default: false
        }
    }

    /// True unless the provider certainly took nothing.
    var mayHaveArrived: Bool {
        switch outcome {
        case .unanswered: true
        case .unavailable: status.map { $0 >= 500 } ?? false
        default: isAccepted
        }
    }

    /// - Parameter topic: the app's, if it has credentials of Apple's.
    func finding(_ subject: String, _ device: PushDevice, topic: String?, app: String) -> Doctor.Finding {
        let words = [status.map(String.init), reason].compactMap(\.self).joined(separator: " ")
        let said = String(String.UnicodeScalarView(words.unicodeScalars.filter { $0.value >= 0x20 && $0.value != 0x7F }))
        let meaning = meaning(device, topic: topic, app: app)
        return Doctor.Finding(
            subject: subject, isGood: isAccepted,
            sentence: said.isEmpty ? meaning : "\(said)\(said.hasSuffix(".") ? "" : ".") \(meaning)")
    }

    private func meaning(_ device: PushDevice, topic: String?, app: String) -> String {
        let provider = device.provider == .apns ? "Apple" : "Google"
        switch outcome {
        case .accepted:
            return
                "\(provider) accepted it. If the phone shows nothing: the app or its channel may show no notifications, a Focus holds "
                + "them back, or the app is open and shows none by itself."
        case .acceptedElsewhere(let environment):
            return
                "Apple accepted it at its \(environment.rawValue) service, to which the token belongs. Let the app register with "
                + "environment \(environment.rawValue); the server corrects it with its next push."
        case .deviceBusy: return "Too many pushes went to this device: \(provider) takes no more of them now. Try again later."
        case .unavailable where status == 429:
            return "The project or the team sends more than \(provider) allows, and this was not taken. Try again in a minute."
        case .unavailable: return "\(provider)'s service has trouble. Nothing is wrong here: try again later."
        case .unprocessed: return "It wasn't sent. See that this machine reaches \(provider)'s servers, and try again."
        case .unanswered: return "It was sent, and the connection ended before the answer: it may have arrived. Try again."
        case .tokenGone: return gone(device)
        case .tokenForeign where device.provider == .apns:
            return
                "The token belongs to another app than \(topic ?? ""): apps.\(app).apns.topic must be the bundle id of the app on the "
                + "phone."
        case .tokenForeign:
            return "The token comes from another Firebase project: the app's own Firebase settings and "
                + "apps.\(app).fcm.service_account_file must be of one project."
        case .rejected: return "\(provider) refused this push for good; the device may take others."
        case .misconfigured:
            return
                "No push of this app to such devices goes out until its settings are right: see the table of answers in docs/push-setup.md."
        }
    }

    private func gone(_ device: PushDevice) -> String {
        if reason == "BadDeviceToken" {
            return
                "Apple doesn't know the token in the environment \(device.environment.rawValue), nor in the other one if it was asked: "
                + "it was registered with the wrong environment, belongs to another app, or isn't a device token of APNs."
        }
        if reason == "INVALID_ARGUMENT" {
            return
                "Google doesn't take this for \(device.kind == .fid ? "an installation ID" : "a registration token"): look for what was left "
                + "out of it, and at its kind."
        }
        let since = if case .tokenGone(let since?) = outcome { " since \(since)" } else { "" }
        let word = device.kind == .fid ? "installation ID" : "token"
        let trap = device.kind == .fid ? " An app that registers its ID must not call getToken(), which ends the ID." : ""
        return
            "The \(word) is dead\(since): the app was removed, or has another one now. Open the app, so that it registers again.\(trap)"
    }
}
