package import CampanileCore
import FoundationEssentials

/// A folder with everything that a server needs to push to a simulator, kept between starts: the APNs key, the service
/// account, the authority, and a configuration that names them. Only the owner can read the keys.
package struct KeyFolder: Sendable {
    package let path: String
    /// The path of the authority's certificate.
    package let caFile: String
    package let credentials: SimulatorCredentials
    package let authority: SimulatedAuthority

    package var keyFile: String { "\(path)/AuthKey_\(credentials.keyID).p8" }
    package var serviceAccountFile: String { "\(path)/service-account.json" }
    package var configurationFile: String { "\(path)/campanile.yaml" }

    /// Opens the folder, and makes missing files.
    /// - Parameter caFile: another place for the authority's certificate than `simulator-ca.pem` in the folder.
    package init(path: String, caFile: String? = nil) throws(OperatorError) {
        self.path = path
        self.caFile = caFile ?? "\(path)/simulator-ca.pem"
        do {
            try FileManager.default.createDirectory(
                atPath: path, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
            credentials = try KeyFolder.credentials(in: path)
            authority = try KeyFolder.authority(in: path, caFile: self.caFile)
        } catch {
            throw OperatorError("The keys of \(path) can't be read or made (\(error)). An empty folder gets new ones.")
        }
    }

    private static func credentials(in path: String) throws -> SimulatorCredentials {
        let notes = "\(path)/simulator.json"
        if let bytes = FileManager.default.contents(atPath: notes) {
            let names = try JSONValue(parsing: Array(bytes))
            let account = try JSONValue(parsing: Array(try text("\(path)/service-account.json").utf8))
            let keyID = try member("key_id", of: names)
            return try SimulatorCredentials(
                keyID: keyID, teamID: try member("team_id", of: names), topic: try member("topic", of: names),
                p8PEM: try text("\(path)/AuthKey_\(keyID).p8"), projectID: try member("project_id", of: account),
                clientEmail: try member("client_email", of: account),
                serviceAccountKeyPEM: try member("private_key", of: account))
        }
        let made = try SimulatorCredentials.make()
        try write(made.p8PEM, to: "\(path)/AuthKey_\(made.keyID).p8", isSecret: true)
        try write(made.serviceAccountJSON(tokenURI: ""), to: "\(path)/service-account.json", isSecret: true)
        let names = JSONValue.object([
            .init("key_id", .string(made.keyID)), .init("team_id", .string(made.teamID)),
            .init("topic", .string(made.topic)),
        ])
        try write(String(decoding: names.text, as: UTF8.self), to: notes, isSecret: false)
        return made
    }

    private static func authority(in path: String, caFile: String) throws -> SimulatedAuthority {
        let keyFile = "\(path)/simulator-ca.key"
        if let certificate = try? text(caFile), let key = try? text(keyFile),
            let authority = try? SimulatedAuthority(certificatePEM: certificate, keyPEM: key)
        {
            return authority
        }
        let made = try SimulatedAuthority.make()
        try write(made.keyPEM, to: keyFile, isSecret: true)
        try write(made.certificatePEM, to: caFile, isSecret: false)
        return made
    }

    /// Writes the files that depend on the simulator's port: the service account and the configuration.
    package func write(for simulator: PushSimulator) throws(OperatorError) {
        do {
            try KeyFolder.write(simulator.serviceAccountJSON(), to: serviceAccountFile, isSecret: true)
            try KeyFolder.write(configuration(for: simulator), to: configurationFile, isSecret: false)
        } catch {
            throw OperatorError("\(path) can't be written: \(error)")
        }
    }

    /// The settings of `campanile serve` for this simulator.
    package func configuration(for simulator: PushSimulator) -> String {
        """
        apps:
          default:
            apns:
              key_file: \(keyFile)
              key_id: \(credentials.keyID)
              team_id: \(credentials.teamID)
              topic: \(credentials.topic)
              url: \(simulator.apnsURL())
            fcm:
              service_account_file: \(serviceAccountFile)
              url: \(simulator.fcmURL)
        push:
          ca_file: \(caFile)

        """
    }

    // MARK: - Files

    private static func text(_ path: String) throws -> String {
        guard let bytes = FileManager.default.contents(atPath: path) else { throw OperatorError("no \(path)") }
        return String(decoding: bytes, as: UTF8.self)
    }

    private static func member(_ name: String, of object: JSONValue) throws -> String {
        guard case .string(let text)? = object[name] else { throw OperatorError("no \(name)") }
        return text
    }

    private static func write(_ text: String, to path: String, isSecret: Bool) throws {
        // The empty file has its permissions before the text stands in it.
        guard
            FileManager.default.createFile(
                atPath: path, contents: nil, attributes: [.posixPermissions: isSecret ? 0o600 : 0o644])
        else { throw OperatorError("no way to write \(path)") }
        try Data(text.utf8).write(to: URL(filePath: path))
    }
}
