import CampanileCore

extension Doctor {
    /// Examines what a cluster depends on beside its settings. On SQLite it finds nothing.
    static func examineCluster(_ database: Store, _ configuration: Configuration, _ world: World) throws -> [Finding] {
        guard let health = try database.postgresHealth(world) else { return [] }
        var findings: [Finding] = []
        if configuration.lacksSecret {
            findings.append(Finding(subject: "user tokens", isGood: false, sentence: Configuration.secretRefusal))
        }
        findings.append(health.server)
        findings.append(health.durability)
        findings += health.disk
        findings.append(health.clock)
        return findings + examineNodes(try database.nodeReports() ?? [])
    }

    static func examineNodes(_ nodes: [NodeReport]) -> [Finding] {
        let alive = nodes.filter(\.isAlive)
        let versions = Set(alive.map(\.node.version)).sorted()
        let names = alive.map { "\($0.node.name) (\($0.node.address), \($0.shards) shards)" }
        var findings = [
            Finding(
                subject: "nodes", isGood: true,
                sentence: alive.isEmpty ? "No node serves the database now." : "These serve: \(names.joined(separator: ", ")).")
        ]
        if versions.count > 1 {
            findings.append(
                Finding(
                    subject: "nodes", isGood: true,
                    sentence: "They are of several versions (\(versions.joined(separator: ", "))): finish the upgrade."))
        }
        for node in nodes where !node.isAlive {
            findings.append(
                Finding(
                    subject: "node \(node.node.name)", isGood: false,
                    sentence:
                        "It (\(node.node.address)) is silent since \(node.seenAt) and didn't say that it ends: it was killed, or "
                        + "doesn't reach the database. Others send its pushes. A node that doesn't come back is forgotten after "
                        + "\(Limits.nodeMemoryMilliseconds / 60_000) minutes."))
        }
        return findings
    }
}

extension PostgresHealth {
    fileprivate var server: Doctor.Finding {
        Doctor.Finding(subject: "PostgreSQL", isGood: true, sentence: "The server is PostgreSQL \(version).")
    }

    /// The finding on what an answer to a client promises.
    /// Source: https://www.postgresql.org/docs/15/runtime-config-replication.html
    var durability: Doctor.Finding {
        func finding(_ isGood: Bool, _ sentence: String) -> Doctor.Finding {
            Doctor.Finding(subject: "durability", isGood: isGood, sentence: sentence)
        }
        guard !standbyNames.isEmpty else {
            return finding(
                true,
                "synchronous_commit is \(synchronousCommit), and synchronous_standby_names is empty: an acknowledged write is on the "
                    + "primary's disk and may be nowhere else. A primary whose disk is lost, or that a standby replaces, may lose "
                    + "acknowledged writes, unless the provider keeps copies below PostgreSQL (Aurora, AlloyDB and the like do).")
        }
        let promise =
            "synchronous_commit is \(synchronousCommit), and synchronous_standby_names is \(standbyNames): an acknowledged write is on "
            + "the primary's disk and on those of as many of the named standbys as it says, and survives the loss of the primary "
            + "if one of those takes its place."
        guard standbys.allSatisfy({ $0.state != nil }) else {
            return finding(true, promise + " Whether one is connected, this user may not see: GRANT pg_monitor shows it.")
        }
        let connected = standbys.filter(\.isSynchronous).map(\.name)
        guard connected.count >= standbysNeeded else {
            let found = connected.isEmpty ? "none is" : "only \(connected.joined(separator: ", ")) is"
            return finding(
                false,
                "synchronous_standby_names is \(standbyNames), so every write waits for \(standbysNeeded) of them, and \(found) connected: "
                    + "nothing can be written until more come back, or the setting names fewer.")
        }
        return finding(true, promise + " Connected: \(connected.joined(separator: ", ")).")
    }

    /// The findings on what a crash of the server's machine does.
    /// Source: https://www.postgresql.org/docs/15/runtime-config-wal.html
    var disk: [Doctor.Finding] {
        unsafeSettings.map { name in
            name == "fsync"
                ? Doctor.Finding(
                    subject: "disk", isGood: false,
                    sentence:
                        "fsync is off: when the server's machine crashes, acknowledged writes are lost, and the database may be "
                        + "damaged. Turn it on.")
                : Doctor.Finding(
                    subject: "disk", isGood: true,
                    sentence: "\(name) is off: that is right only where a page is never half written (ZFS, and storage that the "
                        + "provider made for it); elsewhere a crash of the machine may damage the database.")
        }
    }

    /// Nodes take times of notifications and tokens from their own clocks.
    var clock: Doctor.Finding {
        let seconds = "\(abs(clockDifference) / 1_000).\(abs(clockDifference) % 1_000 / 100) s"
        guard abs(clockDifference) > Limits.clockDifferenceMilliseconds else {
            return Doctor.Finding(
                subject: "clock", isGood: true, sentence: "This machine's differs from the database's by \(seconds).")
        }
        return Doctor.Finding(
            subject: "clock", isGood: false,
            sentence:
                "This machine's is \(seconds) \(clockDifference > 0 ? "ahead of" : "behind") the database's: let NTP set both. "
                + "Times that users see, and the expiry of tokens, come from the nodes' clocks.")
    }
}
