import Foundation
import SQLEngine
import Synchronization
import Testing

@Suite("The file that a database is")
struct DatabaseFileTests {
    @Test("what is no file is refused with a sentence", arguments: ["folder", "queue", "link", "", ":memory:", "a\0b"])
    func noFile(_ name: String) throws {
        let folder = Folder()
        let path = name.isEmpty || name.hasPrefix(":") ? name : folder.file(name)
        if name == "folder" { #expect(mkdir(path, 0o700) == 0) }
        if name == "queue" { #expect(mkfifo(path, 0o600) == 0) }
        if name == "link" { #expect(symlink("nowhere", path) == 0) }
        let error = #expect(throws: SQLError.self) { try Database(path: path) }
        #expect(error?.code == .cantOpen)
        let words = ["folder": "is no file", "queue": "is no file", "link": "a symbolic link to a file that isn't there"]
        #expect(error?.message.contains(words[name] ?? "can't be the name of a database file") == true)
    }

    @Test("a symbolic link shares the log with the file that it leads to")
    func link() throws {
        let fixture = try Fixture()
        #expect(symlink("test.sqlite", fixture.folder.file("link")) == 0)
        let other = try Database(path: fixture.folder.file("link"))
        defer { other.close() }
        #expect(other.file.identity == fixture.database.file.identity)
        try other.writeBlocking { _ = try insertThing($0, "through the link") }
        #expect(try fixture.count == 1)
        #expect(fixture.folder.names == ["link", "test.sqlite", "test.sqlite-shm", "test.sqlite-wal"])
    }
}
