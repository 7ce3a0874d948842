"""Runs the session of examples/ios, App/Services.swift as it stands, with CampanileClient, on Linux.

A page's messages come as a web view hands them over: a fresh user token, and right behind it the sign-out. What the session
asks of UIKit and Hotwire Native is made up below; its calls go to a server that notes them. After a sign-out the last word
about the device must be its deletion, whatever pages say meanwhile; and whoever signs in while a sign-out is slow must be
registered behind it. Exit code 1 if one isn't so.
"""
import argparse
import base64
import http.server
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading

from e2e import ROOT
from e2e.contract.typecheck_ios import EXAMPLE, HERE, PACKAGE, swift_files

MADE_UP = {
    "UIKit": "public import Foundation",
    "os": (HERE / "ios_shell/os.swift").read_text(encoding="utf-8"),
    "HotwireNative": """public struct HotwireConfig { public let userAgent = "Example/1 Hotwire Native iOS" }
public enum Hotwire { public static var config: HotwireConfig { HotwireConfig() } }
""",
}
APP = """import CampanileClient
import Foundation

enum Addresses {
    static let campanile = BaseURL(URL(string: CommandLine.arguments[1])!)
    static let inbox = "/notifications"
}

extension BadgeIcon {
    static func system(_ store: BadgeStore) -> BadgeIcon { BadgeIcon(store) { _ in } }
}

extension ShownNotifications {
    static var system: ShownNotifications { ShownNotifications(delivered: { [] }, remove: { _ in }) }
}

final class PushDelegate {
    init(_ handler: PushHandler) {}
}

extension DeviceRegistration {
    @MainActor func start() async {}
    @MainActor func askForAlerts() async throws {}
    @MainActor func signedInOnDevice(_ user: String, _ badge: BadgeStore) async throws { try await signedIn(user, badge) }
    @MainActor func signOutOfDevice(_ badge: BadgeStore) async -> SignOut { await signOut(badge) }
}
"""
MAIN = """import CampanileClient
import Foundation

/// Tells the server of the test, or waits for it.
func control(_ word: String) async throws {
    let url = Addresses.campanile.url.appendingPathComponent("control/" + word)
    _ = try await URLSessionTransport().send(HTTPCall(url: url))
}

@MainActor var issued = 0

@MainActor func page(_ user: String) -> Task<Void, Never> {
    issued += 1
    let parts = ["{}", #"{"sub":"\\#(user)","iat":\\#(issued)}"#, "none"].map { part in
        Data(part.utf8).base64EncodedString().replacingOccurrences(of: "=", with: "")
    }
    return Task { await Services.shared.signedIn(user, parts.joined(separator: ".")) }
}

@MainActor func signOut() -> Task<Void, Never> { Task { _ = await Services.shared.signOut() } }

@MainActor func run() async throws {
    await page("alice").value
    try await Services.shared.registration.register(Data([1, 2]))
    for _ in 0..<20 {
        for isFirst in [true, false] {
            if !isFirst { await page("alice").value }
            let tasks = [page("alice"), signOut()]
            for task in tasks { await task.value }
            try await control(isFirst ? "over/DELETE/alice/first" : "over/DELETE/alice/later")
        }
        for (user, end) in [("alice", "over/DELETE/alice/meanwhile"), ("bob", "over/POST/bob/next")] {
            await page("alice").value
            try await control("hold")
            var tasks = [page("alice"), signOut()]
            try await control("wait")
            tasks.append(page(user))
            try await control("release")
            for task in tasks { await task.value }
            try await control(end)
        }
    }
    exit(0)
}

Task {
    do { try await run() } catch { fatalError("\\(error)") }
}
RunLoop.main.run()
"""
SCENES = {
    "first": "a sign-out by the first page of a launch",
    "later": "a sign-out by a later page",
    "meanwhile": "a sign-out while another page of the user hands a token",
    "next": "somebody else who signs in while the server is slow",
}


class Server(http.server.ThreadingHTTPServer):
    """Notes the calls about the device, and holds a deletion up when it is told to."""
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.calls = []
        self.deleting, self.released = threading.Event(), threading.Event()
        self.released.set()
        self.seen = {name: [] for name in SCENES}

    def control(self, words):
        if words[0] == "hold":
            self.deleting.clear()
            self.released.clear()
        elif words[0] == "wait":
            self.deleting.wait(60)
        elif words[0] == "release":
            self.released.set()
        else:
            self.seen[words[3]].append((tuple(words[1:3]), self.calls[-1:]))


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path.startswith("/control/"):
            self.server.control(self.path.split("/")[2:])
        elif self.path.startswith("/device_tokens"):
            claims = self.headers["Authorization"].split(".")[1]
            user = json.loads(base64.b64decode(claims + "=" * (-len(claims) % 4)))["sub"]
            if self.command == "DELETE":
                self.server.deleting.set()
                self.server.released.wait(60)
            self.server.calls.append((self.command, user))
        body = b'{"count":0,"unread_count":0,"version":1}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_DELETE = answer

    def log_message(self, *_):
        pass


def build(swiftc, folder):
    """The example's session and what it needs, as one program."""
    def compile_module(name, files, *options):
        run(swiftc, "-emit-library", "-static", "-emit-module", "-parse-as-library", "-wmo", "-module-name", name, "-I", folder,
            "-o", folder / f"lib{name}.a", *options, *files)

    # First, while there is no module UIKit whose parts it would ask for.
    for module in ("CampanileCore", "CampanileClient"):
        compile_module(module, swift_files(ROOT / "Sources" / module), *PACKAGE)
    for module, text in {**MADE_UP, "app": APP, "main": MAIN}.items():
        (folder / f"{module}.swift").write_text(text, encoding="utf-8")
    for module in MADE_UP:
        compile_module(module, [folder / f"{module}.swift"])
    run(swiftc, "-swift-version", "5", "-module-name", "CampanileExample", "-I", folder, "-L", folder,
        EXAMPLE / "App/Services.swift", *swift_files(EXAMPLE / "Shared"), folder / "app.swift", folder / "main.swift",
        *(f"-l{module}" for module in ("CampanileClient", "CampanileCore", *MADE_UP)), "-o", folder / "session")


def run(*command):
    done = subprocess.run([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
    if done.returncode:
        sys.exit(f"ios_session: {command[0]} ended with {done.returncode}:\n{done.stdout[:4000]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--swiftc", default="swiftc", help="the compiler (default swiftc)")
    options = parser.parse_args()
    if not shutil.which(options.swiftc):
        parser.error(f"there is no {options.swiftc}")
    server = Server()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(prefix="campanile-session-") as name:
        folder = pathlib.Path(name)
        build(options.swiftc, folder)
        run(folder / "session", f"http://127.0.0.1:{server.server_port}")
    wrong = 0
    for scene, what in SCENES.items():
        seen = server.seen[scene]
        undone = sum(last != [wanted] for wanted, last in seen)
        wrong += undone or not seen
        print(f"ios_session: {what}: {len(seen) - undone} of {len(seen)} as it should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
