"""A package of somebody else's that depends on CampanileClient alone, with the trait `Server` switched off.

It is written into a temporary folder, built and run. Neither its list of dependencies, nor `ldd` on its program, nor the
names in its program may show anything of the server's: Swift's packages are linked statically, and `ldd` shows none of them.
The controls are the repository's own list and the server's program, which must show all of it.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SERVERS = re.compile(r"nio|jwt|crypto|yams|certificates|asn1|argument-parser|swift-log|microhttpd|sqlite", re.IGNORECASE)
# What ldd may not show. Foundation's own libcurl brings a libcrypto of the system's.
LIBRARIES = ("libmicrohttpd", "libsqlite3")
# What a program may not hold: each of these modules stands in the names of its functions, after the name's length.
MODULES = ("NIOCore", "NIOPosix", "NIOHTTP2", "NIOSSL", "JWTKit", "Yams", "CampanileServer")

MANIFEST = """// swift-tools-version: 6.1
import PackageDescription

let package = Package(
    name: "consumer",
    platforms: [.iOS(.v16), .macOS(.v13)],
    dependencies: [.package(name: "campanile", path: "%s", traits: [])],
    targets: [
        .executableTarget(name: "consumer", dependencies: [.product(name: "CampanileClient", package: "campanile")]),
    ]
)
"""

PROGRAM = """import CampanileClient
import Foundation

final class Coordinator: DeepLinkCoordinator {
    var pages: [String] = []
    func prepareForDeepLink() {}
    func show(_ page: DeepLinkPage, animated: Bool) { pages.append(page.address) }
}

let api = CampanileAPI(
    baseURL: URL(string: "http://127.0.0.1:1")!, userAgent: "Consumer/1", retry: RetryPolicy(attempts: 1)
) { _ in "no token" }
let tree = DeepLinkTree([.init("home", children: [.init("orders", children: [.init(":id")])])])
let coordinator = Coordinator()
try DeepLinkRouter<Coordinator>(tree, []).chain("home/orders/42").open(in: coordinator)
print(coordinator.pages.joined(separator: " "), BadgeText.bell(12) ?? "")
do {
    _ = try await api.badge()
} catch {
    print(ClientFailure(error)?.kind == .unreachable ? "unreachable" : "\\(error)")
}
"""

EXPECTED = "/home /home/orders /home/orders/42 9+\nunreachable\n"


def run(*command, cwd=None):
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"consumer: {' '.join(map(str, command))} failed:\n{done.stdout}")
    return done.stdout


def found(names, text):
    return [name for name in names if name in text]


def modules(program):
    """Which of the server's modules a program was linked with."""
    content = pathlib.Path(program).read_bytes()
    return [name for name in MODULES if f"{len(name)}{name}".encode() in content]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--swift", default="swift", help="the swift command (default swift)")
    parser.add_argument("--binary", help="the server's program, for the control")
    options = parser.parse_args()
    problems = []
    with tempfile.TemporaryDirectory(prefix="campanile-consumer-") as name:
        folder = pathlib.Path(name)
        (folder / "Sources/consumer").mkdir(parents=True)
        (folder / "Package.swift").write_text(MANIFEST % ROOT, encoding="utf-8")
        (folder / "Sources/consumer/main.swift").write_text(PROGRAM, encoding="utf-8")
        dependencies = run(options.swift, "package", "show-dependencies", "--format", "flatlist", cwd=folder)
        run(options.swift, "build", cwd=folder)
        program = folder / ".build/debug/consumer"
        libraries = run("ldd", program)
        linked = modules(program)
        own = f"{len('CampanileClient')}CampanileClient".encode() in program.read_bytes()
        printed = run(program)
        fetched = sorted(path.name for path in (folder / ".build/checkouts").glob("*"))
    for what, text in (("the list of dependencies", dependencies), ("the checkouts", " ".join(fetched))):
        if SERVERS.search(text):
            problems.append(f"{what} shows the server's:\n{text}")
    if found(LIBRARIES, libraries):
        problems.append(f"ldd shows the server's:\n{libraries}")
    if linked:
        problems.append(f"the program holds the server's modules {linked}")
    if not own:
        problems.append("the program holds no names, not even CampanileClient's, so that nothing can be said of it")
    if printed != EXPECTED:
        problems.append(f"the program printed {printed!r}")
    if not SERVERS.search(run(options.swift, "package", "show-dependencies", "--format", "flatlist", cwd=ROOT)):
        problems.append("the control, the repository's own list, shows nothing of the server's")
    if options.binary:
        for what, wanted, there in (("ldd on the server's program", LIBRARIES, found(LIBRARIES, run("ldd", options.binary))),
                                    ("the server's program", MODULES, modules(options.binary))):
            missing = sorted(set(wanted) - set(there))
            if missing:
                problems.append(f"the control, {what}, doesn't show {missing}")
    for problem in problems:
        print(f"consumer: {problem}")
    print(f"consumer: CampanileClient alone, {'WRONG' if problems else 'nothing of the server comes with it'}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
