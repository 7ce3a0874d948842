"""Type-checks the ```swift blocks of docs/integration.md, together as one program, in the language modes 5 and 6.

Apple's frameworks aren't on Linux: apple_modules/ declares what the blocks use of them. So what is checked is that they fit
together and to those declarations, warnings included; nothing is run. Prints the compiler's complaints with the document's
lines; exit code 1 if there is one. typecheck_ios.py does the same for the example app.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
DOCUMENT = HERE.parent / "docs/integration.md"
# apple_modules/ requires what the example app implements; the document's app leaves these out, as Apple's protocol lets it.
LEFT_OUT = """
extension UIApplicationDelegate {
    func application(_: UIApplication, didFailToRegisterForRemoteNotificationsWithError _: any Error) {}
    func application(
        _: UIApplication, didReceiveRemoteNotification _: [AnyHashable: Any],
        fetchCompletionHandler _: @escaping (UIBackgroundFetchResult) -> Void) {}
}
"""
BLOCK = re.compile(r"^```swift\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def program(text):
    """The blocks one after another, each under the document's name and lines; then what they leave out."""
    parts = []
    for block in BLOCK.finditer(text):
        line = text.count("\n", 0, block.start(1)) + 1
        parts.append(f'#sourceLocation(file: "docs/{DOCUMENT.name}", line: {line})\n{block.group(1)}')
    return "".join([*parts, "#sourceLocation()\n", LEFT_OUT]), len(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--swiftc", default="swiftc", help="the compiler (default swiftc)")
    options = parser.parse_args()
    if not shutil.which(options.swiftc):
        parser.error(f"there is no {options.swiftc}")
    source, blocks = program(DOCUMENT.read_text(encoding="utf-8"))
    failed = not blocks
    with tempfile.TemporaryDirectory(prefix="campanile-swift-") as folder:
        file = pathlib.Path(folder, "integration.swift")
        file.write_text(source, encoding="utf-8")
        for mode in ("5", "6"):
            failed |= subprocess.run([
                options.swiftc, "-typecheck", "-parse-as-library", "-swift-version", mode, "-warnings-as-errors",
                "-module-cache-path", f"{folder}/modules", "-I", str(HERE / "apple_modules"), str(file)]).returncode != 0
    print(f"check_swift: {blocks} blocks of docs/{DOCUMENT.name}, {'WRONG' if failed else 'nothing wrong'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
