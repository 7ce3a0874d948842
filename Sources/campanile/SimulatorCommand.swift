import ArgumentParser
import CampanileCore
import CampanileServer
import Glibc
import PhoneScript
import PushSimulator

struct SimulatorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "simulator",
        abstract: "Stand in for APNs and FCM, with phones to look at, until SIGTERM or SIGINT.",
        discussion: """
            Takes real pushes over HTTP/2 and TLS, checks them as strictly as Apple and Google do, and shows what the
            phones would. docs/simulator.md lists the control calls and the faults.
            """)

    @Option(help: "The TLS port of APNs and FCM; 0 takes a free one.")
    var port = 2_197

    @Option(help: "The port of the page and the control calls, plain HTTP; 0 takes a free one.")
    var page = 2_198

    @Option(help: "A TLS port of its own for APNs' sandbox environment.")
    var sandboxPort: Int?

    @Option(help: "The address to listen on. Anybody who reaches the page's port may command the simulator.")
    var host = "127.0.0.1"

    @Option(
        help: ArgumentHelp(
            "The folder of the keys to push with; missing files are made.", valueName: "dir"))
    var makeKeys = "data/simulator"

    @Option(help: "Where the authority's certificate goes, for --push-ca (default: simulator-ca.pem beside the keys).")
    var caFile: String?

    @Option(help: "A JSON file of faults to begin with.")
    var faults: String?

    @Option(
        help: ArgumentHelp(
            "A file of steps for phones and a server of its own, on a clock that moves by the steps alone; prints what the phones show, and ends.",
            valueName: "file"))
    var script: String?

    @Option(help: "What decides the faults' chances, and a script's.")
    var seed: UInt64 = 1

    @Option(help: "A file that every request is added to, a line of JSON each, before its answer goes out.")
    var record: String?

    @Option(help: "How many of an app's pushes APNs keeps for a phone that is off: one or all. Apple's pages disagree.")
    var stored = PhoneRules.Stored.one

    @Option(help: "How often an hour iOS wakes an app in the background: a number, or unlimited.")
    var backgroundBudget = "unlimited"

    @Flag(help: "Ask for what Campanile keeps to, also where Apple and Google take more: for its own tests.")
    var strict = false

    @Flag(help: "Count and answer, and keep neither phones nor requests: for benchmarks.")
    var fast = false

    @Flag(help: "Refuse device tokens that POST /devices/{token} didn't make known.")
    var knownTokensOnly = false

    /// Without the credentials.
    private var options: SimulatorOptions {
        var options = SimulatorOptions(world: .live)
        options.host = host
        options.port = port
        options.sandboxPort = sandboxPort
        options.pagePort = page
        options.isStrict = strict
        options.isFast = fast
        options.seed = seed
        options.knownTokensOnly = knownTokensOnly
        options.phoneRules.stored = stored
        options.phoneRules.backgroundBudget = (try? PhoneRules.budget(backgroundBudget)) ?? nil
        return options
    }

    func validate() throws {
        if fast, record != nil { throw ValidationError(SimulatorOptions.fastKeepsNoRecord) }
        do {
            _ = try PhoneRules.budget(backgroundBudget)
        } catch {
            throw ValidationError("\(error)")
        }
        if let problem = options.problem { throw ValidationError(problem) }
    }

    func run() async throws {
        if let script { return try await run(script: script) }
        let signals = TerminationSignals()
        let rules = try faults.map { try FaultRule.list(file: $0) } ?? []
        let folder = try KeyFolder(path: makeKeys, caFile: caFile)
        var options = options
        options.credentials = [folder.credentials]
        options.authority = folder.authority
        options.requestFile = try record.map { try requestFile($0) }
        let simulator: PushSimulator
        do {
            // The page answers nobody until the faults are set and the files name this simulator.
            simulator = try await PushSimulator.start(options) { simulator in
                simulator.setFaults(rules)
                try folder.write(for: simulator)
            }
        } catch let error as OperatorError {
            throw error
        } catch {
            throw OperatorError("The simulator can't listen: \(error)")
        }
        greet(simulator, folder)
        _ = await signals.first()
        await simulator.shutDown()
        say("The simulator has stopped.")
        withExtendedLifetime(signals) {}
    }

    private func run(script path: String) async throws {
        do {
            for line in try await ScriptRun(file: path, seed: seed).report() { print(line) }
        } catch let mistake as Mistake {
            throw OperatorError(mistake.sentence)
        }
    }

    private func requestFile(_ path: String) throws -> RequestFile {
        try RequestFile(path: path) { problem in
            say("Error: \(problem)")
            // From now on no answer may go out that isn't in the file.
            _exit(1)
        }
    }

    private func greet(_ simulator: PushSimulator, _ folder: KeyFolder) {
        // As it was started, so that the line can be pasted.
        let program = shellWord(CommandLine.arguments.first ?? "campanile")
        say("")
        say("The simulator stands for APNs and FCM on \(simulator.apnsURL())")
        if simulator.sandboxPort != nil { say("and for APNs' sandbox on \(simulator.apnsURL(.sandbox))") }
        if let page = simulator.pageURL { say("The phones: \(page)/") }
        if fast { say("Fast mode: pushes are counted and answered, no phone is kept.") }
        say("")
        say("Serve with these settings (they stand in \(folder.configurationFile)):")
        for line in folder.configuration(for: simulator).split(separator: "\n") { say("  \(line)") }
        say("")
        say("  \(program) serve --config \(shellWord(folder.configurationFile))")
        say("or, with a configuration of your own:")
        say(
            "  \(program) serve --apns-url \(simulator.apnsURL()) --fcm-url \(simulator.fcmURL)"
                + " --push-ca \(shellWord(folder.caFile))")
        say("")
    }
}

extension PhoneRules.Stored: ExpressibleByArgument {}
