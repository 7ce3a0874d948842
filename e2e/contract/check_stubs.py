"""Finds every declaration of apple_modules/HotwireNative.swiftinterface and of android_modules/ in the libraries' sources.

    check_stubs.py --ios FOLDER --android FOLDER

Each folder is a git repository of the library, with a work tree or without, that has the versions named below. A declaration must
stand there with the same signature, labels, values by default, access, isolation and superclass, and with no conformance that the
library doesn't have. What the library demands of an app beside, requirements of a protocol and cases of an enumeration, must be
declared here too. Prints a line a declaration; exit code 1 if one differs and EXPLAINED has no reason for it, or has one for nothing.
"""
import argparse
import dataclasses
import io
import pathlib
import re
import subprocess
import sys
import tarfile

from e2e.contract import kotlin_declarations, swift_declarations
from e2e.contract.comparison import Comparison, Library

HERE = pathlib.Path(__file__).resolve().parent
INTERFACE = HERE / "apple_modules/HotwireNative.swiftinterface"


@dataclasses.dataclass(frozen=True)
class Version:
    """A version of Hotwire Native for iOS."""
    name: str
    commit: str  # or its tag
    word: str  # what chooses it in HotwireNative.swiftinterface

    def interface(self):
        """HotwireNative.swiftinterface for this version."""
        return re.sub(r"-D \w+", f"-D {self.word}", INTERFACE.read_text(encoding="utf-8"), count=1)


# The first is the one that HotwireNative.swiftinterface says by itself, and examples/ios is written for.
IOS_VERSIONS = [
    Version("1.3.0-beta", "1.3.0-beta", "HOTWIRE_1_3_0_BETA"), Version("1.2.2", "1.2.2", "HOTWIRE_1_2_2"),
    Version("main", "38631e29ea991824acf9f7ac92248323a5190c6c", "HOTWIRE_MAIN")]
ANDROID_VERSION = "1.3.1"
# Differences that are meant: "a declaration's full name: what differs" and the reason.
INHERITED = "a screen of examples/android has it from HotwireWebFragment or HotwireWebBottomSheetFragment"
EXPLAINED = {
    "dev.hotwire.navigation.navigator.Navigator.session: type": "createNewSession() makes it, which returns a Session",
    "dev.hotwire.core.turbo.errors.*: demanded": "examples/android asks for one error, and has no `when` over all of them",
    "dev.hotwire.core.bridge.BridgeDestination.*: demanded": INHERITED,
    "dev.hotwire.navigation.destinations.*: demanded": INHERITED,
    "dev.hotwire.navigation.fragments.HotwireWebFragmentCallback.*: demanded": INHERITED,
}


def sources(repository, version, folder, ending):
    """The files of a version, by their paths."""
    done = subprocess.run(
        ["git", "-C", str(repository), "archive", "--format=tar", version, *folder], capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"check_stubs: {repository} has no {version}: {done.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        return {entry.name: archive.extractfile(entry).read().decode() for entry in archive if entry.name.endswith(ending)}


def isolated_classes():
    """Classes of Apple's that are the main actor's, as apple_modules/ declares them."""
    for file in sorted((HERE / "apple_modules").glob("*.swiftinterface")):
        if file.stem != "HotwireNative":
            for found in swift_declarations.read(file.read_text(encoding="utf-8"), file.name):
                if found.kind in ("class", "protocol") and "MainActor" in found.attributes:
                    yield found.name


def ios(repository):
    apple = set(isolated_classes())
    for version in IOS_VERSIONS:
        files = sources(repository, version.commit, ["Source"], ".swift")
        library = Library(
            [found for path, text in files.items() for found in swift_declarations.read(text, path)], apple)
        declared = Library(swift_declarations.read(version.interface(), INTERFACE.name, {version.word}), apple)
        yield f"Hotwire Native for iOS {version.name}", Comparison(declared, library, EXPLAINED)


def android(repository):
    files = sources(repository, ANDROID_VERSION, [], ".kt")
    library = Library([
        found for path, text in files.items() if "/src/main/" in path and not path.startswith("demo/")
        for found in kotlin_declarations.read(text, path)])
    declared = []
    for file in sorted((HERE / "android_modules").rglob("*.kt")):
        declared += kotlin_declarations.read(file.read_text(encoding="utf-8"), file.name)
    yield f"Hotwire Native for Android {ANDROID_VERSION}", Comparison(
        Library([found for found in declared if found.owner.startswith("dev.hotwire.")]), library, EXPLAINED)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ios", type=pathlib.Path, required=True, help="a git repository of hotwire-native-ios")
    parser.add_argument("--android", type=pathlib.Path, required=True, help="a git repository of hotwire-native-android")
    options = parser.parse_args()
    total = 0
    used = set()
    for name, comparison in [*ios(options.ios), *android(options.android)]:
        lines, wrong = comparison.lines()
        used |= comparison.used
        for line in lines:
            print(line)
        print(f"check_stubs: {name}: {len(comparison.declared.declarations)} declarations, {wrong} unexplained differences")
        total += wrong
    for name in sorted(EXPLAINED.keys() - used):
        print(f"check_stubs: a reason that nothing needs: {name}")
        total += 1
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
