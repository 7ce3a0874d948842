"""A package of somebody else's that depends on CampanileClient alone, with the trait `Server` switched off.

It is written into a temporary folder, built and run: with Package.swift, and with Package@swift-6.1.swift, which an older Swift
reads in its place and which is given that place in a copy. Neither the list of its dependencies, nor `ldd` on its program, nor the
names in its program may show anything of the server's: Swift's packages are linked statically, and `ldd` shows none of them. The
controls are the repository's own list and the server's program, which must show all of it. Then both manifests must say the same of
CampanileClient; the control is a manifest without the resource.
"""
import argparse
import concurrent.futures
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from e2e import ROOT

SERVERS = re.compile(r"nio|jwt|crypto|yams|certificates|asn1|argument-parser|swift-log|microhttpd|sqlite", re.IGNORECASE)
# What ldd may not show. Foundation's own libcurl brings a libcrypto of the system's.
LIBRARIES = ("libmicrohttpd", "libsqlite3", "libyaml")
# What a program may not hold: each of these modules stands in the names of its functions, after the name's length.
MODULES = ("NIOCore", "NIOPosix", "NIOHTTP2", "NIOSSL", "JWTKit", "CampanileServer")

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

# Questions, which needn't wait for a test run or a build in the same folder.
READ_ONLY = ("package", "--ignore-lock")
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


def consume(options, folder, package):
    """Builds the consumer in this folder, of the package in that one, and yields what is wrong with it."""
    (folder / "Sources/consumer").mkdir(parents=True)
    (folder / "Package.swift").write_text(MANIFEST % package, encoding="utf-8")
    (folder / "Sources/consumer/main.swift").write_text(PROGRAM, encoding="utf-8")
    dependencies = run(options.swift, "package", "show-dependencies", "--format", "flatlist", cwd=folder)
    run(options.swift, "build", cwd=folder)
    # By itself, without the bundle of its package's resources, which only Xcode needs.
    program = shutil.copy(folder / ".build/debug/consumer", folder / "alone")
    shutil.rmtree(folder / ".build/debug/campanile_CampanileClient.resources")
    libraries = run("ldd", program)
    linked = modules(program)
    printed = run(program)
    fetched = sorted(path.name for path in (folder / ".build/checkouts").glob("*"))
    for what, text in (("the list of dependencies", dependencies), ("the checkouts", " ".join(fetched))):
        if SERVERS.search(text):
            yield f"{what} shows the server's:\n{text}"
    if found(LIBRARIES, libraries):
        yield f"ldd shows the server's:\n{libraries}"
    if linked:
        yield f"the program holds the server's modules {linked}"
    if f"{len('CampanileClient')}CampanileClient".encode() not in pathlib.Path(program).read_bytes():
        yield "the program holds no names, not even CampanileClient's, so that nothing can be said of it"
    if printed != EXPECTED:
        yield f"the program printed {printed!r}"


def client(swift, folder):
    """All that a manifest says of CampanileClient, but that warnings are errors here."""
    dumped = subprocess.run([swift, *READ_ONLY, "dump-package"], cwd=folder, stdout=subprocess.PIPE, check=True)
    package = json.loads(dumped.stdout)
    targets = {target["name"]: target for target in package["targets"]}
    for target in targets.values():
        target["settings"] = [setting for setting in target["settings"] if "treatAllWarnings" not in setting["kind"]]
    return {
        "its name": package["name"], "its platforms": package["platforms"], "its traits": sorted(package["traits"], key=str),
        "its language modes": package["swiftLanguageVersions"],
        "its product": [product for product in package["products"] if product["name"] == "CampanileClient"],
        **{f"the target {name}": targets.get(name) for name in ("CampanileCore", "CampanileClient")}}


def older(folder, text):
    """A copy of the package with this text as its manifest: as a Swift reads it that is older than Package.swift asks for."""
    folder.mkdir(parents=True)
    (folder / "Package.swift").write_text(text, encoding="utf-8")
    for name in ("CampanileCore", "CampanileClient"):
        shutil.copytree(ROOT / "Sources" / name, folder / "Sources" / name)
    return folder


def differences(one, other):
    return [what for what in one if one[what] != other[what]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--swift", default="swift", help="the swift command (default swift)")
    parser.add_argument("--binary", help="the server's program, for the control")
    options = parser.parse_args()
    problems = []
    with tempfile.TemporaryDirectory(prefix="campanile-consumer-") as name:
        folder, text = pathlib.Path(name), (ROOT / "Package@swift-6.1.swift").read_text(encoding="utf-8")
        copy = older(folder / "6.1/campanile", text)
        with concurrent.futures.ThreadPoolExecutor() as both:
            packages = (("newest", ROOT), ("older", copy))
            done = [both.submit(list, consume(options, folder / place, package)) for place, package in packages]
        problems += [*done[0].result(), *(f"with Package@swift-6.1.swift: {problem}" for problem in done[1].result())]
        newest = client(options.swift, ROOT)
        problems += (f"Package@swift-6.1.swift and Package.swift differ in {what}" for what in
                     differences(newest, client(options.swift, copy)))
        without = older(folder / "control/campanile", re.sub(r" resources: \[[^]]*\],", "", text))
        if differences(newest, client(options.swift, without)) != ["the target CampanileClient"]:
            problems.append("the control, a manifest without the privacy manifest, isn't found")
    if not SERVERS.search(run(options.swift, *READ_ONLY, "show-dependencies", "--format", "flatlist", cwd=ROOT)):
        problems.append("the control, the repository's own list, shows nothing of the server's")
    if options.binary:
        for what, wanted, there in (("ldd on the server's program", LIBRARIES, found(LIBRARIES, run("ldd", options.binary))),
                                    ("the server's program", MODULES, modules(options.binary))):
            missing = sorted(set(wanted) - set(there))
            if missing:
                problems.append(f"the control, {what}, doesn't show {missing}")
    for problem in problems:
        print(f"consumer: {problem}")
    print(f"consumer: CampanileClient alone, by both manifests, {'WRONG' if problems else 'nothing of the server comes with it'}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
