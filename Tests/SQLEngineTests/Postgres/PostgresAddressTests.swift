import Testing
import TestSupport

@testable import SQLEngine

@Suite struct PostgresAddressTests {
    @Test("an address is described without its password")
    func description() throws {
        let address = try PostgresAddress("postgres://me:geheim@db1:5433,db2/campanile?sslmode=require")
        #expect(address.description == "campanile at db1,db2:5433," || address.description == "campanile at db1,db2:5433,5432")
        #expect(address.holdsPassword)
        #expect(try !PostgresAddress("host=db1 dbname=x").holdsPassword)
        #expect(PostgresAddress.isPostgres("postgresql://x") && !PostgresAddress.isPostgres("data/campanile.sqlite"))
    }

    @Test(
        "what can't be understood is refused without repeating a part of a password",
        arguments: [
            "postgres://me:geh@eim@db/x", "postgres://me:geh/eim@db/x", "postgres://me:geheim@db:eim/x",
            "password=geheim geheim", "postgres://me:geheim%zz@db/x", "host=db port=geheim",
        ])
    func malformed(_ text: String) {
        let error = sqlError { _ = try PostgresAddress(text) }
        #expect(error?.code == .cantOpen)
        #expect(error?.description.contains("eim") == false, "\(error?.description ?? "")")
    }

    @Test("a server that can't be reached is unavailable, and the sentence has no password")
    func unreachable() throws {
        let address = try PostgresAddress("postgres://me:geheim@127.0.0.1:1/x")
        let error = sqlError { _ = try PostgresDatabase<Cells>(address) }
        #expect(error?.code == .cantOpen && error?.isUnavailable == true)
        #expect(error?.description.contains("geheim") == false)
        #expect(error?.description.contains("127.0.0.1") == true)
    }

    @Test(
        "a host that takes connections and ends them, as a proxy before a dead server, doesn't keep the next ones from being tried"
    )
    func proxies() throws {
        let server = try PostgresServer.shared.get()
        let dead = try [PostgresProxy(to: 1), PostgresProxy(to: 1)].map(\.port)
        let own = try #require(try server.makeDatabase().split(separator: "/").last?.split(separator: "?").first)
        let hosts = (dead + [UInt16(server.port)]).map { "127.0.0.1:\($0)" }
        for hosts in [hosts, hosts.reversed(), Array(hosts.dropFirst())] {
            let address = try PostgresAddress("postgres://owner@\(hosts.joined(separator: ","))/\(own)")
            let database = try PostgresDatabase<Cells>(address)
            #expect(try database.readBlocking { try $0.first("SELECT 1::bigint") { $0.int(0) } } == 1)
        }
        let error = sqlError {
            try PostgresDatabase<Cells>(PostgresAddress("postgres://owner@\(hosts.prefix(2).joined(separator: ","))/\(own)"))
        }
        #expect(error?.code == .cantOpen)
        for port in dead { #expect(error?.message.contains("\(port)") == true) }
    }

    @Test(
        "the hosts behind one are told from it by name and port",
        arguments: [
            ("a", "1", "b,c", "2,3"), ("b", "2", "c", "3"), ("c", "3", nil, nil), ("d", "1", nil, nil), ("a", "9", nil, nil),
        ])
    func behind(_ host: String, _ port: String, _ hosts: String?, _ ports: String?) throws {
        let settings = try PostgresAddress("postgres://a:1,b:2,c:3/x").settings
        let rest = PostgresAddress.settings(settings, behind: host, port: port)
        #expect(rest?.first { $0.name == "host" }?.value == hosts)
        #expect(rest?.first { $0.name == "port" }?.value == ports)
        #expect(rest.map { $0.count == settings.count } ?? true)
    }
}
