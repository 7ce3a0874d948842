import Foundation
import Glibc
import Synchronization

/// Stands between a client and a PostgreSQL server on 127.0.0.1 and, when it is told to, throws away what one of them says next
/// and ends the connection.
package final class PostgresProxy: Sendable {
    private enum Way: Equatable {
        case pass, swallowAnswers, swallowQuestions
        /// Nothing gets through, and nothing is lost.
        case hold
        /// The next answer to a COMMIT, on a connection where this was asked.
        case loseCommit(Data)
    }

    private let way = Mutex(Way.pass)
    private let losses = Watched(0)
    private let listening: Int32
    package let port: UInt16

    /// - Parameter target: the server's port.
    package init(to target: Int) throws {
        (listening, port) = try PostgresProxy.listen()
        Thread.detachNewThread { [listening, weak self] in
            while true {
                let client = accept(listening, nil, nil)
                guard client >= 0, let self else { return }
                Thread.detachNewThread { self.serve(client, target) }
            }
        }
    }

    deinit {
        shutdown(listening, Int32(SHUT_RDWR))
        close(listening)
    }

    /// The address of the same database, through here.
    package func address(of text: String) -> String {
        "postgres://owner@127.0.0.1:\(port)/\(text.split(separator: "/").last ?? "")"
    }

    package func pass() { way.withLock { $0 = .pass } }
    package func swallowAnswers() { way.withLock { $0 = .swallowAnswers } }
    /// Lets nothing through until `pass`: the server seems to say nothing.
    package func hold() { way.withLock { $0 = .hold } }
    package func swallowQuestions() { way.withLock { $0 = .swallowQuestions } }

    /// Loses the answer to one commit: the next on a connection where the statement was ever asked, as text. The commit is done
    /// then.
    package func loseCommit(of statement: String) { way.withLock { $0 = .loseCommit(Data(statement.utf8)) } }

    /// How many answers to commits were lost.
    package var lostCommits: Int { losses.value }
    package func untilCommitLost() async { await losses.until { $0 > 0 } }

    /// The end of the answer to a COMMIT: https://www.postgresql.org/docs/15/protocol-message-formats.html, CommandComplete
    private static let committed = Data("COMMIT\0".utf8)

    private func isLost(_ answer: Data, to asked: Data) -> Bool {
        way.withLock { way in
            guard case .loseCommit(let statement) = way, answer.range(of: PostgresProxy.committed) != nil,
                asked.range(of: statement) != nil
            else { return false }
            way = .pass
            losses.change { $0 += 1 }
            return true
        }
    }

    private func serve(_ client: Int32, _ target: Int) {
        let server = PostgresProxy.connect(target)
        defer {
            close(client)
            close(server)
        }
        var bytes = [UInt8](repeating: 0, count: 65_536)
        var asked = Data()
        while true {
            var ends = [
                pollfd(fd: client, events: Int16(POLLIN), revents: 0), pollfd(fd: server, events: Int16(POLLIN), revents: 0),
            ]
            guard poll(&ends, 2, -1) > 0 else { return }
            while way.withLock({ $0 }) == .hold { usleep(1_000) }
            for (index, other) in [(0, server), (1, client)] where ends[index].revents != 0 {
                let count = read(ends[index].fd, &bytes, bytes.count)
                guard count > 0, way.withLock({ $0 }) != (index == 0 ? .swallowQuestions : .swallowAnswers) else { return }
                if index == 0 { asked += bytes[..<count] }
                if index == 1, isLost(Data(bytes[..<count]), to: asked) { return }
                guard send(other, bytes, count, Int32(MSG_NOSIGNAL)) == count else { return }
            }
        }
    }

    private static func listen() throws -> (Int32, UInt16) {
        let socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = local(0)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                bind(socket, pointer, length) == 0 && getsockname(socket, pointer, &length) == 0
            }
        }
        guard isBound, Glibc.listen(socket, 16) == 0 else { throw PostgresServer.Failed(description: "no port for a proxy") }
        return (socket, UInt16(bigEndian: address.sin_port))
    }

    private static func connect(_ port: Int) -> Int32 {
        let socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = local(UInt16(port))
        _ = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        return socket
    }

    private static func local(_ port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return address
    }
}
