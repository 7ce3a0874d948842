"""Type-checks the ```swift blocks of docs/integration.md and docs/client.md, each document as one program, in the language
modes 5 and 6, and that of examples/ios/README.md in the mode 5, in which Hotwire Native is written.

Apple's frameworks aren't on Linux: apple_modules/ declares what the blocks use of them. So what is checked is that they fit
together and to those declarations, warnings included; nothing is run. The blocks of client.md are held to CampanileClient as
it stands here, and to what CLIENT_CONTEXT makes up of an app, those of the README to the app of APP_CONTEXT. Prints the
compiler's complaints with the document's lines; exit code 1 if there is one. typecheck_ios.py does the same for the example app.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from e2e import ROOT
from e2e.contract.typecheck_ios import MODULES, Compiler, swift_files

# apple_modules/ requires what the example app implements; the document's app leaves these out, as Apple's protocol lets it.
LEFT_OUT = """
extension UIApplicationDelegate {
    func application(_: UIApplication, didFailToRegisterForRemoteNotificationsWithError _: any Error) {}
    func application(
        _: UIApplication, didReceiveRemoteNotification _: [AnyHashable: Any],
        fetchCompletionHandler _: @escaping (UIBackgroundFetchResult) -> Void) {}
}
"""
# What client.md speaks of and doesn't show.
CLIENT_CONTEXT = """
import CampanileClient
import UIKit
import UserNotifications

let id = "019a9f5c-7a00-7000-8000-000000000001"
let userID = "alice"
let deviceToken = Data()
let tree = DeepLinkTree([])
@MainActor let url = URL(fileURLWithPath: "/")
@MainActor let bell = UILabel()
@MainActor var tabBarItem: UITabBarItem { fatalError() }
@MainActor let coordinator = AppCoordinator()
let reload: @Sendable () -> Void = {}
@MainActor func show(_: [InboxNotification]) {}
func alert(_: String, retry: (@Sendable () -> Void)?) {}
func log(_: ClientFailure) {}

@MainActor final class AppCoordinator: DeepLinkCoordinator, PushScreens {
    var isShowingInbox: Bool { false }
    func showInbox() -> Bool { true }
    func open(_: PushPayload) {}
    func prepareForDeepLink() {}
    func show(_: DeepLinkPage, animated: Bool) {}
    func push(_: UIViewController, animated: Bool) {}
}

@MainActor final class RankingViewController: UIViewController {
    init(_: Int) { super.init(nibName: nil, bundle: nil) }
    required init?(coder: NSCoder) { nil }
}

struct Home: DeepLinkScreen {
    static let path = "home"
    init(_: DeepLinkValues) throws {}
    func show(in _: AppCoordinator, animated: Bool) {}
}
"""
# The app that the README adds to.
APP_CONTEXT = """
import HotwireNative
import UIKit

@MainActor let campanile = URL(fileURLWithPath: "/")
@MainActor let site = URL(fileURLWithPath: "/")
final class AppDelegate: UIResponder {}
final class SceneDelegate: UIResponder { let tabBar = HotwireTabBarController() }
"""
BLOCK = re.compile(r"^```swift\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A part of a manifest, which e2e/contract/consumer.py builds a whole of.
MANIFEST = "// Package.swift"


def program(name):
    """The document's blocks one after another, each under the document's name and lines."""
    text = (ROOT / name).read_text(encoding="utf-8")
    parts = []
    for block in BLOCK.finditer(text):
        if block.group(1).startswith(MANIFEST):
            continue
        line = text.count("\n", 0, block.start(1)) + 1
        parts.append(f'#sourceLocation(file: "{name}", line: {line})\n{block.group(1)}')
    return "".join([*parts, "#sourceLocation()\n"]), len(parts)


def check(options, folder, files, *flags, modes=("5", "6")):
    """Writes the files, whose names and texts these are, and checks them together in the language modes."""
    paths = []
    for file, text in files.items():
        path = folder / file
        path.write_text(text, encoding="utf-8")
        paths.append(str(path))
    failed = False
    for mode in modes:
        failed |= subprocess.run([
            options.swiftc, "-typecheck", "-swift-version", mode, "-warnings-as-errors", *flags,
            "-module-cache-path", f"{folder}/modules", "-I", str(MODULES), "-I", str(folder), *paths]).returncode != 0
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--swiftc", default="swiftc", help="the compiler (default swiftc)")
    options = parser.parse_args()
    if not shutil.which(options.swiftc):
        parser.error(f"there is no {options.swiftc}")
    failed = False
    with tempfile.TemporaryDirectory(prefix="campanile-swift-") as name:
        folder = pathlib.Path(name)
        source, blocks = program("docs/integration.md")
        wrong = not blocks or check(
            options, folder, {"integration.swift": source + LEFT_OUT}, "-parse-as-library")
        print(f"check_swift: {blocks} blocks of docs/integration.md, {'WRONG' if wrong else 'nothing wrong'}")
        failed |= wrong
        compiler = Compiler(options.swiftc, folder)
        for module in ("CampanileCore", "CampanileClient"):
            code, complaints = compiler.module(module, swift_files(ROOT / "Sources" / module))
            if code:
                sys.exit(f"check_swift: {module}: WRONG\n{complaints}")
        source, blocks = program("docs/client.md")
        # As a script, whose lines run one after the other: an app has them in several places.
        head = "import CampanileClient\nimport UIKit\nimport UserNotifications\n"
        wrong = not blocks or check(
            options, folder, {"context.swift": CLIENT_CONTEXT, "main.swift": head + source})
        print(f"check_swift: {blocks} blocks of docs/client.md, {'WRONG' if wrong else 'nothing wrong'}")
        failed |= wrong
        source, blocks = program("examples/ios/README.md")
        wrong = not blocks or check(
            options, folder, {"app.swift": APP_CONTEXT, "added.swift": source}, "-parse-as-library", modes=["5"])
        print(f"check_swift: {blocks} block of examples/ios/README.md, {'WRONG' if wrong else 'nothing wrong'}")
        failed |= wrong
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
