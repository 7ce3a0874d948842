"""Holds the privacy manifests to the sources: CampanileClient's, and that of examples/ios, which its app and its extension have.

Apple wants a reason for the use of some APIs, in a PrivacyInfo.xcprivacy. A use without a reason is a problem, and so is a reason
without a use. CampanileClient is linked into the app and the extension, so their manifest says what it does too. Then the controls:
a reason that is taken out, a use that is added. Prints a line a problem; exit code 1 if there is one, or if a control passes.
"""
import copy
import plistlib
import re
import sys

import yaml

from e2e import ROOT

CATEGORY = "NSPrivacyAccessedAPICategory"
# Apple's list (Describing use of required reason API): a category, what in a source belongs to it, and the reason that such a use
# has here; without one, any reason of the category will do.
USES = [
    ("UserDefaults", r"UserDefaults\.standard|UserDefaults\(\)|@AppStorage", "CA92.1"),
    ("UserDefaults", r"UserDefaults\(suiteName:", "1C8F.1"),
    ("FileTimestamp", r"\b(?:creationDate|modificationDate|fileModificationDate|contentModificationDateKey|creationDateKey)\b"
     r"|\b(?:f?getattrlist|getattrlistbulk|getattrlistat|f?stat|fstatat|lstat)\(", ""),
    ("SystemBootTime", r"\bsystemUptime\b|\bmach_absolute_time\b", ""),
    ("DiskSpace", r"\bvolume(?:Available|Total)Capacity|\bsystem(?:Free)?Size\b|\bf?statv?fs\(", ""),
    ("ActiveKeyboards", r"\bactiveInputModes\b", ""),
]
COLLECTED = "NSPrivacyCollectedDataType"
# What DeviceRegistration sends to the app's own server: who has this device, and the device's token.
SENT = {"UserID", "DeviceID"}
# A manifest, and the folders whose Swift it speaks for.
CLIENT = ["Sources/CampanileCore", "Sources/CampanileClient"]
MANIFESTS = {
    "Sources/CampanileClient/PrivacyInfo.xcprivacy": CLIENT,
    "examples/ios/Shared/PrivacyInfo.xcprivacy": [
        *CLIENT, "examples/ios/App", "examples/ios/Shared", "examples/ios/NotificationService"],
}


def problems(manifest, sources):
    """What a manifest lacks, or has too much, for sources, which are texts by their names."""
    if manifest.get("NSPrivacyTracking") is not False or manifest.get("NSPrivacyTrackingDomains") != []:
        yield "it doesn't say that nobody is tracked"
    collected = {entry[COLLECTED].removeprefix(COLLECTED) for entry in manifest.get(f"{COLLECTED}s", [])}
    if collected != SENT:
        yield f"it says that {sorted(collected)} are collected, and the registration sends {sorted(SENT)}"
    declared = {
        (entry["NSPrivacyAccessedAPIType"].removeprefix(CATEGORY), reason)
        for entry in manifest.get("NSPrivacyAccessedAPITypes", []) for reason in entry["NSPrivacyAccessedAPITypeReasons"]}
    needed = set()
    for category, pattern, reason in USES:
        for name, text in sources.items():
            found = re.search(pattern, re.sub(r"//.*", "", text))
            reasons = {own for own in declared if own[0] == category and (not reason or own[1] == reason)}
            if found and not reasons:
                yield f"{name} uses {found.group()}: {category} isn't declared{f' with {reason}' if reason else ''}"
            needed |= reasons if found else set()
    for category, reason in sorted(declared - needed):
        yield f"{category} is declared with {reason}, and no source uses it so"


def controls(manifest, sources):
    """Mistakes that must be found, each with the manifest and the sources that have it."""
    without = copy.deepcopy(manifest)
    without["NSPrivacyAccessedAPITypes"][0]["NSPrivacyAccessedAPITypeReasons"].pop()
    yield "a reason that is taken out", without, sources
    more = copy.deepcopy(manifest)
    more["NSPrivacyAccessedAPITypes"][0]["NSPrivacyAccessedAPITypeReasons"].append("1C8F.1")
    yield "a reason for a group's user defaults, which nothing uses", more, sources
    yield "a use of the system's uptime", manifest, {**sources, "control": "let up = ProcessInfo.processInfo.systemUptime"}


def main():
    wrong = 0
    for path, folders in MANIFESTS.items():
        if not (ROOT / path).exists():
            print(f"{path}: there is no such file")
            wrong += 1
            continue
        manifest = plistlib.loads((ROOT / path).read_bytes())
        files = [file for folder in folders for file in sorted((ROOT / folder).rglob("*.swift"))]
        sources = {str(file.relative_to(ROOT)): file.read_text(encoding="utf-8") for file in files}
        for problem in problems(manifest, sources):
            print(f"{path}: {problem}")
            wrong += 1
        for mistake, changed, other in controls(manifest, sources):
            if not any(problems(changed, other)):
                print(f"{path}: not found as it should be: {mistake}")
                wrong += 1
    targets = yaml.safe_load((ROOT / "examples/ios/project.yml").read_text(encoding="utf-8"))["targets"]
    for name, target in targets.items():
        if "Shared" not in target["sources"]:
            print(f"examples/ios/project.yml: {name} doesn't take Shared/, where the privacy manifest is")
            wrong += 1
    print(f"check_privacy: {len(MANIFESTS)} manifests, {wrong} problems")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
