import CampanileCore
import Foundation
import TestSupport
import Testing

@testable import CampanileServer

/// The program as somebody starts it: arguments, environment and signals in, standard error and an exit status out.
@Suite("The program", .endsIfItHangs)
struct ProgramTests {
    /// A command that goes on until it is told to stop, and what it has said so far.
    final class Running {
        let program: ChildProgram
        private let errors: Int32
        private(set) var lines: [String] = []
        private var pending: [UInt8] = []

        /// - Parameter handedDown: a socket that a supervisor hands down to it.
        init(_ arguments: [String], environment: [String: String] = [:], handedDown: Int32? = nil) throws {
            var ends: [Int32] = [0, 0]
            guard pipe(&ends) == 0 else { throw ChildProgram.NotStarted(error: errno) }
            errors = ends[0]
            defer { close(ends[1]) }
            guard let handedDown else {
                program = try ChildProgram(ProgramTests.path, arguments, environment: environment, errors: ends[1])
                return
            }
            // The variables name the process that is meant, whose number is known only when it is there: a shell that becomes it.
            let shell = ["-c", #"export LISTEN_PID=$$; exec "$0" "$@""#, ProgramTests.path]
            program = try ChildProgram(
                "/bin/sh", shell + arguments, environment: ["LISTEN_FDS": "1"].merging(environment) { $1 }, errors: ends[1],
                handedDown: handedDown)
        }

        deinit { close(errors) }

        /// Reads until a line holds a text. - Returns: that line; nil at the end of the program.
        func line(with text: String) -> String? {
            while let line = next() {
                if line.contains(text) { return line }
            }
            return nil
        }

        private func next() -> String? {
            while true {
                if let end = pending.firstIndex(of: UInt8(ascii: "\n")) {
                    lines.append(String(decoding: pending[..<end], as: UTF8.self))
                    pending.removeSubrange(...end)
                    return lines.last
                }
                var chunk = [UInt8](repeating: 0, count: 65_536)
                let count = read(errors, &chunk, chunk.count)
                guard count > 0 || (count < 0 && errno == EINTR) else { return nil }
                pending += chunk[..<max(0, count)]
            }
        }
    }

    /// Beside the tests' own bundle.
    static let path =
        URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent().appending(path: "campanile").path()

    private let folder = TemporaryFolder()

    private func serve(_ arguments: [String] = [], environment: [String: String] = [:]) throws -> (Running, address: String?) {
        let running = try Running(
            ["serve", "--port", "0"] + (arguments.contains("--config") ? [] : ["--database", folder.database]) + arguments,
            environment: environment)
        let address = running.line(with: "Campanile listens on")?.split(separator: " ").last
        return (running, address.map(String.init))
    }

    private func status(_ url: String) throws -> String { try statuses([url]) }

    /// Of requests over one connection.
    private func statuses(_ urls: [String]) throws -> String {
        let silent = urls.flatMap { ["-o", "/dev/null", $0] }
        return try ChildProgram.output(of: "/usr/bin/curl", ["-s", "-w", "%{http_code}", "--max-time", "120"] + silent)
    }

    // MARK: Signals

    /// The signals that tools for logs and profiles send, and those that a limit of the shell sends when a file is full.
    static let stray = [SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGPIPE, SIGXFSZ, SIGWINCH, SIGURG]

    @Test(
        "signals that others send end neither server nor simulator; SIGTERM ends both in order",
        arguments: [
            ["serve"], ["simulator"],
        ])
    func signals(command: [String]) throws {
        let running = try Running(
            command == ["serve"]
                ? ["serve", "--port", "0", "--database", folder.database]
                : ["simulator", "--port", "0", "--page", "0", "--make-keys", folder.path + "/keys"])
        let isServer = command == ["serve"]
        let line = try #require(running.line(with: isServer ? "Campanile listens on" : "The phones:"))
        let address = try #require(line.split(separator: " ").last)
        for signal in Self.stray { kill(running.program.id, signal) }
        #expect(try status(isServer ? "\(address)/healthz" : String(address)) == "200")
        kill(running.program.id, SIGTERM)
        #expect(running.line(with: isServer ? "Stopping." : "has stopped") != nil)
        #expect(running.program.waitUntilEnded() == 0)
    }

    // MARK: Variables that are no settings

    /// The variables that Kubernetes puts into a pod beside Services named `campanile` and `campanile-simulator`.
    static let serviceLinks = [
        "CAMPANILE_PORT": "tcp://10.96.0.17:3001", "CAMPANILE_SERVICE_HOST": "10.96.0.17", "CAMPANILE_SERVICE_PORT": "3001",
        "CAMPANILE_SERVICE_PORT_HTTP": "3001", "CAMPANILE_PORT_3001_TCP": "tcp://10.96.0.17:3001",
        "CAMPANILE_PORT_3001_TCP_PROTO": "tcp", "CAMPANILE_PORT_3001_TCP_PORT": "3001",
        "CAMPANILE_PORT_3001_TCP_ADDR": "10.96.0.17", "CAMPANILE_SIMULATOR_PORT": "tcp://10.96.0.18:2197",
        "CAMPANILE_SIMULATOR_SERVICE_HOST": "10.96.0.18", "CAMPANILE_SIMULATOR_SERVICE_PORT_APNS": "2197",
        "CAMPANILE_SIMULATOR_PORT_2197_TCP": "tcp://10.96.0.18:2197",
    ]

    @Test("in a pod beside a Service of its name the server starts, and says once what it passes over")
    func pod() throws {
        let clients = ["CAMPANILE_URL": "http://127.0.0.1:3001", "CAMPANILE_KEY": "cmp_secret", "CAMPANILE_IMAGE": "campanile:1"]
        let (running, address) = try serve(environment: Self.serviceLinks.merging(clients) { $1 })
        defer { running.program.kill() }
        #expect(try status("\(try #require(address))/healthz") == "200")
        // Not told again when the configuration is read again. The log is in order, and this line is behind the others.
        kill(running.program.id, SIGHUP)
        #expect(running.line(with: "The push credentials were read again.") != nil)
        let told = running.lines.filter { $0.contains("CAMPANILE_") }
        #expect(told.filter { $0.contains("CAMPANILE_SERVICE_HOST") }.count == 1)
        #expect(told.filter { $0.contains("CAMPANILE_IMAGE") }.count == 1)
        #expect(told.allSatisfy { !$0.contains("CAMPANILE_URL") && !$0.contains("CAMPANILE_KEY") && !$0.contains("10.96") })
    }

    @Test("SIGHUP makes the log say less or more, and a configuration that can't be used changes nothing")
    func logLevel() throws {
        let file = folder.path + "/campanile.yaml"
        func write(_ level: String) throws {
            let text = "database: \(folder.database)\nlog_level: \(level)\n"
            try text.write(toFile: file, atomically: true, encoding: .utf8)
        }
        try write("error")
        let (running, address) = try serve(["--config", file])
        defer { running.program.kill() }
        let (ready, health) = ("\(try #require(address))/readyz", "\(try #require(address))/healthz")
        #expect(try status(health) == "200")
        try write("loud")
        kill(running.program.id, SIGHUP)
        #expect(running.line(with: "The configuration can't be used")?.contains("log_level must be") == true)
        // A request's line may be written after its answer, but before the connection's next request.
        #expect(try statuses([health, ready]) == "200200")
        try write("info")
        kill(running.program.id, SIGHUP)
        #expect(running.line(with: "The push credentials were read again.") != nil)
        #expect(!running.lines.contains { $0.contains("/healthz") || $0.contains("\"notice\",\"message\":\"Serving.") })
        #expect(try status(health) == "200")
        #expect(running.line(with: "/healthz") != nil)
    }

    @Test("a command tells a variable that is no setting on standard error, and is silent about the clients' and Kubernetes'")
    func command() throws {
        let command = ["keys", "create", "shop", "--database", folder.database]
        let environment = Self.serviceLinks.merging(["CAMPANILE_URL": "x", "CAMPANILE_KEY": "y", "CAMPANILE_DB": "z"]) { $1 }
        let running = try Running(command, environment: environment)
        #expect(running.line(with: "\u{0}") == nil)
        #expect(running.program.waitUntilEnded() == 0)
        let told = running.lines.filter { $0.contains("CAMPANILE_") }
        #expect(told == ["Ignored, because there is no such setting: CAMPANILE_DB"])
        let output = try ChildProgram.output(
            of: Self.path, ["keys", "list", "--database", folder.database], environment: environment)
        #expect(output.hasPrefix("shop\tdefault\t") && output.hasSuffix("\tvalid\tproducer\n"))
    }

    @Test("a key made with --operate is another kind of key, and the list says so")
    func operateKey() throws {
        let database = ["--database", folder.database]
        let key = try ChildProgram.output(of: Self.path, ["keys", "create", "watch", "--app", "shop", "--operate"] + database)
        #expect(key.hasPrefix("cmp_"))
        let list = try ChildProgram.output(of: Self.path, ["keys", "list"] + database)
        #expect(list.hasPrefix("watch\tshop\tcreated ") && list.hasSuffix("\tvalid\toperate\n"))
    }

    @Test("a port that is no number is a mistake")
    func port() throws {
        let running = try Running(["serve", "--database", folder.database], environment: ["CAMPANILE_PORT": "abc"])
        #expect(running.line(with: "CAMPANILE_PORT: port must be a whole number") != nil)
        #expect(running.program.waitUntilEnded() == 1)
    }

    // MARK: Deep links

    @Test("deep-links says what a link names or why it is refused, and writes the table; the app's own tree counts")
    func deepLinks() throws {
        let config = folder.path + "/campanile.yaml"
        let yaml = """
            deep_links:
              home:
                title: Home | Start
                children: { ":id": { query: { tab: string, page: { type: integer, required: true } }, min_app_version: { ios: 2.1 } } }
            apps: { shop: { deep_links: { cart: {} } } }
            """
        try yaml.write(toFile: config, atomically: true, encoding: .utf8)
        func run(_ arguments: [String]) throws -> (output: String, errors: [String], status: Int32) {
            let command = ["deep-links"] + arguments + ["--config", config]
            let running = try Running(command)
            #expect(running.line(with: "\u{0}") == nil)
            let status = running.program.waitUntilEnded()
            return (try status == 0 ? ChildProgram.output(of: Self.path, command) : "", running.lines, status)
        }
        let good = try run(["check", "/home/a%20b?page=7"])
        #expect(good.output == "home\tHome | Start\nid is “a b”\tiOS 2.1; older: without_link\npage is 7\n")
        // Nothing that a terminal obeys comes out of a link.
        let hostile = try run(["check", "home/%E2%80%AE?page=1&tab=%1B%5B2J%0Aid%20is%201"])
        #expect(
            hostile.output
                == "home\tHome | Start\nid is “\\u{202e}”\tiOS 2.1; older: without_link\npage is 1\ntab is “\\u{1b}[2J\\u{a}id is 1”\n"
        )
        let bad = try run(["check", "home/1/2"])
        #expect(bad.status == 1)
        #expect(bad.errors == ["Error: deep_link names no screen: there is no “2” below “home/1”. The nearest: home/:id."])
        #expect(try run(["check", "home", "--app", "shop"]).status == 1)
        #expect(try run(["check", "cart", "--app", "shop"]).output == "cart\n")
        for command in [["check", "home"], ["table"]] {
            let wrong = try run(command + ["--app", "a b"])
            #expect(wrong.status == 1)
            #expect(wrong.errors == ["Error: The app must be 1 to 64 letters, digits, dots, dashes or underscores."])
            let unknown = try run(command + ["--app", "nosuch"])
            #expect(unknown.status == 0)
            #expect(unknown.errors == ["The configuration has no app nosuch: its top level applies."])
            #expect(try run(command).errors == [])
        }
        #expect(
            try run(["table"]).output == """
                | link | title | query | web | from version |
                |---|---|---|---|---|
                | `home` | Home \\| Start |  |  |  |
                | `home/:id` |  | `tab`: string; `page`: integer, required |  | iOS 2.1; older: without_link |

                """)
    }

    // MARK: What to try

    /// Runs the lines that a server prints, as they were printed.
    private func paste(
        _ running: Running, in directory: String, environment: [String: String] = [:]
    ) throws -> String {
        #expect(running.line(with: "Try it from another terminal") != nil)
        #expect(running.line(with: "curl ") != nil)
        let hint = running.lines.drop { !$0.contains("Try it") }.dropFirst().joined(separator: "\n")
        let lines = hint.replacing("curl ", with: "curl -s --max-time 120 -w '%{http_code}' ")
        return try ChildProgram.output(of: "/bin/sh", ["-c", "cd '\(directory)'\n\(lines)"], environment: environment)
    }

    @Test("the lines that are printed at the start work, whatever names the database and the configuration")
    func hint() throws {
        let strange = "\(folder.path)/it's a \"strange\" $folder"
        try FileManager.default.createDirectory(atPath: strange, withIntermediateDirectories: true)
        let config = "\(strange)/my config.yaml"
        let database = "\(strange)/named in the file.sqlite".replacing("\"", with: "\\\"")
        let yaml = "database: \"\(database)\"\njwt: {issuer: me, audience: us}\n"
        try yaml.write(toFile: config, atomically: true, encoding: .utf8)
        let named = ["--config", config]
        let others = [named, ["--database", "\(strange)/one"], named + ["--database", "\(strange)/two"]]
        for arguments in others {
            let elsewhere = "\(folder.path)/\(UUID().uuidString)"
            try FileManager.default.createDirectory(atPath: elsewhere, withIntermediateDirectories: true)
            let (running, _) = try serve(arguments)
            defer { running.program.kill() }
            let printed = try paste(running, in: elsewhere)
            #expect(printed == #"{"count":0,"unread_count":0,"version":0,"updated_at":null}200"#, "\(arguments)")
            #expect(try FileManager.default.contentsOfDirectory(atPath: elsewhere).isEmpty, "\(arguments)")
        }
    }

    @Test("a secret that the environment names is said to be needed, and with it the lines work")
    func hintWithSecret() throws {
        let environment = ["CAMPANILE_JWT_SECRET": "a secret of more than thirty-two bytes"]
        let (running, _) = try serve(environment: environment)
        defer { running.program.kill() }
        #expect(try paste(running, in: folder.path, environment: environment).hasSuffix("200"))
        #expect(running.lines.contains { $0.hasSuffix("with the same CAMPANILE_JWT_ variables:") })
    }

    @Test("with a key set the lines that are printed need no token, and work too")
    func hintWithKeySet() throws {
        let keys = """
            {"keys":[{"kty":"EC","crv":"P-256","kid":"k","alg":"ES256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",\
            "y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}
            """
        try keys.write(toFile: folder.path + "/jwks.json", atomically: true, encoding: .utf8)
        let config = folder.path + "/campanile.yaml"
        let yaml = "database: \(folder.database)\njwt: {jwks_file: \(folder.path)/jwks.json}\n"
        try yaml.write(toFile: config, atomically: true, encoding: .utf8)
        let (running, _) = try serve(["--config", config])
        defer { running.program.kill() }
        let printed = try paste(running, in: folder.path)
        #expect(printed.hasSuffix("201"))
        #expect(running.lines.allSatisfy { !$0.contains(" token alice") })
    }
}
