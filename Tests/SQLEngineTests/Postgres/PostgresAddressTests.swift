import SQLEngine
import Testing

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
}
