"""Type-checks examples/ios on Linux, with CampanileClient and its parts for Apple's systems, and shows that this can fail.

Apple's frameworks and Hotwire Native aren't on Linux: apple_modules/ declares what is used of them, and a use of anything
else is an error. CampanileCore and CampanileClient are checked as the package builds them, the app and its notification
service extension as project.yml does, for debugging and for release, warnings included. The app is written for one version of
Hotwire Native, which project.yml pins; for the others its patch in examples/ios/versions/ is applied, and the result checked against
that version's declarations. Nothing is run. Then the controls: each adds a mistake to the app, and the compiler must name it; without
its patch, another version must refuse the app. And the package between the app and this one, examples/ios/AppClient, is resolved:
nothing but this package may stand under it. Exit code 1 if the app is wrong or a control passes.
"""
import argparse
import dataclasses
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from e2e import ROOT
from e2e.contract.check_stubs import IOS_VERSIONS

HERE = pathlib.Path(__file__).resolve().parent
EXAMPLE = ROOT / "examples/ios"
MODULES = HERE / "apple_modules"
# What Package.swift gives its targets.
PACKAGE = [
    "-swift-version", "6", "-package-name", "campanile", "-enable-upcoming-feature", "InternalImportsByDefault",
    "-enable-upcoming-feature", "MemberImportVisibility", "-enable-upcoming-feature", "ExistentialAny"]


@dataclasses.dataclass
class Control:
    """A mistake, and what the compiler's error must say of it: text put in the place of other text, or a file of its own."""
    mistake: str
    named: str
    text: str
    instead_of: str = ""


CONTROLS = [
    Control("an animation, which UIView isn't declared to have", "animate",
            "import UIKit\n@MainActor func control() { UIView.animate(withDuration: 1) {} }"),
    Control("the icon's number as it was set before iOS 16", "applicationIconBadgeNumber",
            "import UIKit\n@MainActor func control() { UIApplication.shared.applicationIconBadgeNumber = 0 }"),
    Control("a request for permission whose closure ends the app in Swift 6 mode", "completionHandler",
            "import UserNotifications\nfunc control() {"
            " UNUserNotificationCenter.current().requestAuthorization(options: [], completionHandler: { _, _ in }) }"),
    Control("a reload that WKWebView isn't declared to have", "reloadFromOrigin",
            "import WebKit\n@MainActor func control(view: WKWebView) { view.reloadFromOrigin() }"),
    Control("a button that SFSafariViewController isn't declared to have", "activityButton",
            "import SafariServices\n@MainActor func control(page: SFSafariViewController) { _ = page.activityButton }"),
    Control("a Navigator without arguments, which Hotwire's documentation shows", "Navigator",
            "import HotwireNative\n@MainActor func control() { _ = Navigator() }"),
    Control("a selector, which needs Objective-C", "Objective-C",
            "import UIKit\nfinal class Control: UIResponder { @objc func tapped() {} }"),
    Control("lazy tabs as 1.3.0's documentation shows them, and none of its versions here has them", "lazyLoadTabs",
            "import HotwireNative\n@MainActor func control() { _ = HotwireTabBarController(navigatorDelegate: nil, lazyLoadTabs: true) }"),
    Control("a tab's navigator, which main has and 1.3.0-beta hasn't", "navigator",
            "import HotwireNative\n@MainActor func control(bar: HotwireTabBarController, tab: HotwireTab) { _ = bar.navigator(for: tab) }"),
    Control("an error of another type than Hotwire Native's, in a method that would never be called", "NavigatorDelegate",
            "error: TurboError, retryHandler", "error: PageError, retryHandler"),
    Control("a delegate's method whose name is nearly right", "UIApplicationDelegate",
            "didReceiveNotification userInfo", "didReceiveRemoteNotification userInfo"),
]


# Versions that declare all that the app uses of the one that it is written for: their patches change what no compiler sees.
DECLARE_THE_SAME = {"1.2.2"}


class Compiler:
    """`modules` is a folder whose declarations go before those of apple_modules/."""
    def __init__(self, swiftc, folder, modules=None):
        self.swiftc, self.folder, self.modules = swiftc, folder, [modules] if modules else []

    def run(self, files, *options):
        """The exit code and the complaints."""
        command = [
            self.swiftc, "-parse-as-library", "-wmo", "-warnings-as-errors", "-module-cache-path", f"{self.folder}/cache",
            *(word for folder in (*self.modules, MODULES, self.folder) for word in ("-I", str(folder))), *options, *map(str, files)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return done.returncode, done.stdout

    def module(self, name, files):
        """Checks a target of the package, and makes the module that the app imports."""
        return self.run(files, "-emit-module", "-o", f"{self.folder}/{name}.swiftmodule", *PACKAGE, "-module-name", name)

    def program(self, name, files, *options):
        return self.run(files, "-typecheck", "-swift-version", "5", "-module-name", name, *options)


def app_files(example):
    return [*swift_files(example / "App"), *swift_files(example / "Shared")]


def patched_example(version, folder):
    """examples/ios for another version of Hotwire Native, with the patch applied, in a folder of its own."""
    own = folder / f"patched-{version}"
    example = own / EXAMPLE.relative_to(ROOT)
    shutil.copytree(EXAMPLE, example, ignore=shutil.ignore_patterns("build", "*.xcodeproj"))
    shutil.copy(EXAMPLE.parent / "campanile.yaml", example.parent)
    done = subprocess.run(
        ["git", "apply", str(EXAMPLE / f"versions/{version}.patch")], cwd=own, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, check=False)
    if done.returncode:
        sys.exit(f"{version}.patch can't be applied: {done.stdout}")
    return example


def check_version(version, swiftc, folder):
    """Checks the app against another version than the one it is written for, with its patch and without it."""
    modules = folder / f"modules-{version.name}"
    modules.mkdir()
    (modules / "HotwireNative.swiftinterface").write_text(version.interface(), encoding="utf-8")
    compiler = Compiler(swiftc, folder, modules)
    is_refused = compiler.program("CampanileExample", app_files(EXAMPLE))[0] != 0
    if is_refused == (version.name in DECLARE_THE_SAME):
        sys.exit(f"typecheck_ios: {version.name} {'refuses' if is_refused else 'takes'} the app without its patch")
    example = patched_example(version.name, folder)
    check_pin(version, example)
    report(f"the app for Hotwire Native {version.name}", *compiler.program("CampanileExample", app_files(example)))


def check_pin(version, example):
    """The version that project.yml takes must be the one that the app is checked against."""
    line = re.search(r"^ *HotwireNative: .*$", (example / "project.yml").read_text(encoding="utf-8"), re.MULTILINE).group()
    is_pinned = re.search(rf"(?:exactVersion|revision): {re.escape(version.commit)}\b", line)
    report(f"project.yml, which takes {version.name}", not is_pinned, f"{line}\n")


def swift_files(folder):
    files = sorted(folder.rglob("*.swift"))
    if not files:
        sys.exit(f"typecheck_ios: no Swift in {folder}")
    return files


def refused(control, file, complaints):
    """Whether the compiler found the mistake, and where it is."""
    return any(
        line.startswith(f"{file}:") and "error: " in line and control.named in line for line in complaints.splitlines())


def check_controls(compiler, app, folder):
    """Mistakes of one file each are made together, since the compiler goes on after each; the others one by one."""
    added = {folder / f"Control{index}.swift": control for index, control in enumerate(CONTROLS) if not control.instead_of}
    for file, control in added.items():
        file.write_text(control.text + "\n", encoding="utf-8")
    complaints = compiler.program("CampanileExample", [*app, *added])[1]
    for file, control in added.items():
        report_control(control, refused(control, file, complaints), complaints)
    for control in (control for control in CONTROLS if control.instead_of):
        original = next((file for file in app if control.instead_of in file.read_text(encoding="utf-8")), None)
        if not original:
            sys.exit(f"typecheck_ios: no file of the app has what a control changes: {control.instead_of}")
        changed = folder / original.name
        changed.write_text(
            original.read_text(encoding="utf-8").replace(control.instead_of, control.text), encoding="utf-8")
        files = [changed if file == original else file for file in app]
        complaints = compiler.program("CampanileExample", files)[1]
        report_control(control, refused(control, changed, complaints), complaints)


def check_package(swift, folder):
    """The names of what AppClient brings into the app."""
    done = subprocess.run(
        [swift, "package", "--package-path", str(EXAMPLE / "AppClient"), "--scratch-path", f"{folder}/packages",
         "show-dependencies", "--format", "flatlist"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    dependencies = [line for line in done.stdout.splitlines() if re.fullmatch(r"[a-z0-9._-]+", line)]
    report("AppClient, which brings no package but this one", done.returncode or len(dependencies) != 1, done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--swiftc", default="swiftc", help="the compiler (default swiftc)")
    parser.add_argument("--swift", default="swift", help="the swift command (default swift)")
    parser.add_argument("--package", type=pathlib.Path, default=ROOT, help="where Sources/CampanileClient is (default: here)")
    options = parser.parse_args()
    if not shutil.which(options.swiftc):
        parser.error(f"there is no {options.swiftc}")
    pinned, *others = IOS_VERSIONS
    app, extension = app_files(EXAMPLE), [*swift_files(EXAMPLE / "NotificationService"), *swift_files(EXAMPLE / "Shared")]
    with tempfile.TemporaryDirectory(prefix="campanile-ios-") as name:
        folder = pathlib.Path(name)
        compiler = Compiler(options.swiftc, folder)
        for module in ("CampanileCore", "CampanileClient"):
            report(module, *compiler.module(module, swift_files(options.package / "Sources" / module)))
        for configuration in ([], ["-D", "DEBUG"]):
            words = "for debugging" if configuration else "for release"
            report(f"the app {words}", *compiler.program("CampanileExample", app, *configuration))
            report(f"the extension {words}", *compiler.program("NotificationService", extension, *configuration))
        check_pin(pinned, EXAMPLE)
        check_controls(compiler, app, folder)
        for version in others:
            check_version(version, options.swiftc, folder)
        check_package(options.swift, folder)
    print(f"typecheck_ios: {len({*app, *extension})} files for {len(IOS_VERSIONS)} versions of Hotwire Native, nothing wrong; "
          f"{len(CONTROLS)} mistakes refused")


def report(what, code, complaints):
    if code:
        print(complaints, end="")
        sys.exit(f"typecheck_ios: {what}: WRONG")
    print(f"typecheck_ios: {what}: nothing wrong")


def report_control(control, is_refused, complaints):
    if not is_refused:
        print(complaints, end="")
        sys.exit(f"typecheck_ios: not refused as it should be: {control.mistake}")
    print(f"typecheck_ios: refused: {control.mistake}")


if __name__ == "__main__":
    main()
