import CampanileCore
import Foundation
import SQLEngine
import Testing

@testable import CampanileServer

@Suite("The address of a database")
struct DatabaseAddressTests {
    @Test(
        "is described without user, password and parameters, whatever stands in it",
        arguments: [
            ("postgres://campanile@db1:5432/name", "postgres://db1:5432/name"),
            ("postgresql://u:secret@db1,db2/name?sslmode=require", "postgres://db1,db2/name"),
            ("postgres://u:sec/ret@db1/name", "postgres://db1/name"),
            ("postgres://u:sec@ret@db1/name", "postgres://db1/name"),
            ("postgres://u:secret?x@db1/name", "postgres://…"),
            ("postgres:///name?host=/run/pg&password=secret", "postgres:///name"),
            ("data/campanile.sqlite", "data/campanile.sqlite"), ("postgres://campanile:hushhush/db", "postgres://…"),
            ("postgres://campanile:54hush/db", "postgres://…"), ("postgres://[::1]:5432/db", "postgres://[::1]:5432/db"),
            ("postgres://db1:5432,secret:x/db", "postgres://…"), ("postgresql+psycopg2://u:secret@db/name", "…"),
            ("host=db password=secret", "…"), ("\"postgres://u:secret@db/name\"", "…"),
        ])
    func described(_ text: String, _ description: String) {
        #expect(DatabaseAddress.describe(text) == description)
    }

    @Test(
        "holds a password before the host or as a parameter",
        arguments: [
            ("postgres://u:secret@db/name", true), ("postgres://u:@db/name", true), ("postgres://u@db/name?password=x", true),
            ("postgres://u@db/name?a=b&sslpassword=x", true), ("postgres://u@db:5432/name?sslmode=require", false),
            ("postgres://db/name", false), ("a:b@c", false), ("postgres://db/name?passwor%64=x", true),
            ("postgres://u:secret?x@db/name", true), ("postgres://db/name?applicatio%6E_name=x", false),
        ])
    func holding(_ text: String, _ isHeld: Bool) {
        #expect(DatabaseAddress.holdsPassword(text) == isHeld)
    }

    @Test(
        "that is neither a path nor a URI of libpq is refused, and not repeated",
        arguments: [
            "Postgres://u:secret@db/name", "POSTGRESQL://db/secret", "postgresql+psycopg2://u:secret@db/name",
            "jdbc:postgresql://db/name?password=secret", "mysql://secret@db", "\"postgres://u:secret@db/name\"",
            "'secret.sqlite'", " postgres://u:secret@db/name", "host=db password=secret", "user=u Password = secret",
            "hostaddr = 10.0.0.1 user=secret", "postgres:u:secret@db/name", "postgres:/u:secret@db/name", "u:secret@db/name",
            "postgres://u:secret/name", "postgres://u:5432secret/name", "postgres://u:se/cret@db/name",
            "postgres://u:se@cret@db/name", "postgres://[::1/secret", "postgres://db,u:secret/name",
        ])
    func mistaken(_ text: String) {
        #expect(DatabaseAddress.mistake(text) != nil)
        let found = problems(text) + problems(nil, ["CAMPANILE_DATABASE": text])
        #expect(found.count >= 2 && found.allSatisfy { $0.contains("database must be") || $0.contains("holds a password") })
        for word in ["secret", "cret"] { #expect(!found.joined().contains(word), "\(found)") }
        for (from, to) in [(text, "postgres://db/name"), ("x.sqlite", text)] {
            let error = #expect(throws: OperatorError.self) { try DatabaseMove(from: from, to: to, world: .live).run() }
            #expect(error?.description.contains("must be") == true && error?.description.contains("cret") == false)
        }
    }

    @Test(
        "of either kind is taken",
        arguments: [
            "data/campanile.sqlite", "/var/lib/12:30@night.sqlite", "postgres", "C:\\data.sqlite",
            "/srv/host=a/campanile.sqlite", "./password=1/x.sqlite", "../'x'/a://b.sqlite",
            "postgres:///name?host=/run/pg", "postgres://u:secret?x@db/name", "postgres://db/name?user=u@realm",
            "postgres://db-1:5432,[::1]:5433,c/name",
            "postgresql://u@%2Frun%2Fpg:5433/name", "postgres://", "postgres://u@db:/name",
        ])
    func taken(_ text: String) {
        #expect(DatabaseAddress.mistake(text) == nil)
    }

    private func problems(_ flag: String?, _ environment: [String: String] = [:]) -> [String] {
        do {
            _ = try Configuration.load(
                file: nil, fileIsRequired: false, environment: environment, flags: Configuration.Flags(database: flag))
            return []
        } catch {
            return error.problems.map(\.description)
        }
    }

    @Test("a password is refused in the flag and taken from the environment, and no problem repeats it")
    func flag() {
        let found = problems("postgres://u:secret@db/name")
        #expect(found.count == 1 && found[0].hasPrefix("--database: database holds a password"))
        for word in ["CAMPANILE_DATABASE", "PGPASSWORD", "~/.pgpass"] { #expect(found[0].contains(word)) }
        #expect(!found[0].contains("secret"))
        #expect(problems(nil, ["CAMPANILE_DATABASE": "postgres://u:secret@db/name"]) == [])
        #expect(problems("postgres://u@db/name") == [])
    }

    @Test("a file, an environment and a flag that name different databases are refused when one is PostgreSQL's")
    func disagreement() throws {
        let folder = TemporaryFolder()
        func problems(file: String?, variable: String?, flag: String? = nil, isForOneCommand: Bool = false) throws -> [String] {
            let path = folder.path + "/campanile.yaml"
            try Data((file.map { "database: \($0)\n" } ?? "{}").utf8).write(to: URL(filePath: path))
            var flags = Configuration.Flags(database: flag)
            flags.isForOneCommand = isForOneCommand
            do {
                _ = try Configuration.load(
                    file: path, fileIsRequired: true, environment: variable.map { ["CAMPANILE_DATABASE": $0] } ?? [:],
                    flags: flags)
                return []
            } catch {
                return error.problems.map(\.description)
            }
        }
        let found = try problems(file: "postgres://u@db/name", variable: "/data/campanile.sqlite")
        #expect(found.count == 1 && found[0].contains("campanile.yaml:1: database is postgres://db/name here"))
        #expect(found[0].contains("/data/campanile.sqlite in CAMPANILE_DATABASE, which would win"))
        #expect(try problems(file: "postgres://u@db/name", variable: nil, flag: "x.sqlite").count == 1)
        #expect(try problems(file: nil, variable: "postgres://u@db/name", flag: "x.sqlite").count == 1)
        #expect(try problems(file: "postgres://u@db/name", variable: "postgres://other/name").count == 1)
        let secret = try problems(file: "x.sqlite", variable: "postgres://u:secret@db/name")
        #expect(secret.count == 1 && !secret[0].contains("secret"))
        // The same with a password, and files as ever.
        #expect(try problems(file: "postgres://u@db/name", variable: "postgresql://u:secret@db/name?sslmode=require") == [])
        #expect(try problems(file: "x.sqlite", variable: "y.sqlite", flag: "z.sqlite") == [])
        // Somebody has typed it, for this once.
        #expect(try problems(file: "postgres://u@db/name", variable: nil, flag: "x.sqlite", isForOneCommand: true) == [])
        #expect(try problems(file: "postgres://u@db/name", variable: "x.sqlite", isForOneCommand: true).count == 1)
    }

    @Test("backups of the server's own are refused beside it, with PostgreSQL's means")
    func backups() {
        let found = problems("postgres://u@db/name", ["CAMPANILE_BACKUP_DIRECTORY": "backups"])
        #expect(found.count == 1 && found[0].hasPrefix("CAMPANILE_BACKUP_DIRECTORY: backup.directory is for a SQLite file"))
        #expect(found[0].contains("pg_dump"))
        #expect(problems("x.sqlite", ["CAMPANILE_BACKUP_DIRECTORY": "backups"]) == [])
    }

    @Test("the server and `token` want a secret that is set: beside the database there is no place for one")
    func secret() throws {
        var configuration = Configuration()
        configuration.database = "postgres://u@db/name"
        let error = #expect(throws: OperatorError.self) { _ = try configuration.makeSecretIfNone(world: .live) }
        #expect(error?.description.contains("jwt.secret or jwt.jwks_file") == true)
        configuration.jwt.secret = RunningServer.secret
        #expect(try !configuration.makeSecretIfNone(world: .live))
    }
}
