"""Compiles clients/kotlin, examples/android and the documents' Kotlin, and runs the library's tests against a server.

The compiler is the real one (kotlin_toolchain.py). The library is compiled as it stands and run on the JVM, against the program with the
simulator of Firebase behind it. Android, AndroidX, Firebase and Hotwire Native aren't here: android_modules/ declares what is used of
them, and a use of anything else is an error. So the app is compiled and never run, its resources are looked up and never packed, and
Gradle builds nothing.

Then the controls. Mistakes that the compiler must name in the app; and changed cases of clients/vectors, which Kotlin's tests and, with
--swift-tests, Swift's must refuse in every list of every file. Exit code 1 if something is wrong or a control passes.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

import yaml

from e2e import ROOT
from e2e.contract.kotlin_toolchain import Kotlin, KotlinError
from e2e.harness import Simulator, serving

HERE = pathlib.Path(__file__).resolve().parent
LIBRARY = ROOT / "clients/kotlin/src"
VECTORS = ROOT / "clients/vectors"
APP = ROOT / "examples/android/app"
SOURCES = APP / "src/main/kotlin/com/example/shop"
MODULES = HERE / "android_modules"
DOCUMENT = ROOT / "docs/integration.md"
README = ROOT / "clients/kotlin/README.md"
# Declares names that its block uses and doesn't show.
README_CONTEXT = """package shown

import com.campanile.*

fun log(failure: Exception) = println(failure)

fun shown(
    storage: ClientStorage, calls: FirebaseCalls, installationId: String, userToken: String, show: (Int) -> Unit,
    data: Map<String, String>, draw: (PushAlert, Long?) -> Unit
) {
%s}
"""
USERS = ("anna", "ben", "clara", "dora", "emil", "frida", "gina", "hans", "ines")
# ServerTests.kt follows links of this tree.
DEEP_LINKS = {"home": {"web": "/dashboard", "children": {"ranking": {"min_app_version": {"android": "2.0.0"}}}}}


@dataclasses.dataclass
class Control:
    """A mistake in a file of the app, and what the compiler's error must say of it."""
    mistake: str
    named: str
    file: str
    instead_of: str
    text: str


CONTROLS = [
    Control("an import of loadPathConfiguration, which is a member of Hotwire", "loadPathConfiguration", "ShopApplication.kt",
            "import dev.hotwire.navigation.config.registerBridgeComponents",
            "import dev.hotwire.navigation.config.loadPathConfiguration\nimport dev.hotwire.navigation.config.registerBridgeComponents"),
    Control("a delegate's method whose name is nearly right", "overrides nothing", "WebFragment.kt",
            "override fun onVisitErrorReceived(location", "override fun onVisitFailed(location"),
    Control("a view that the layout hasn't got", "bottom_navigation", "MainActivity.kt", "R.id.bottom_nav", "R.id.bottom_navigation"),
    Control("a push's number taken for one that is always there", "argument type mismatch", "DrawnAlert.kt",
            "push.badge?.let { notification.setNumber(it.coerceIn(0, Int.MAX_VALUE.toLong()).toInt()) }", "notification.setNumber(push.badge)"),
    Control("an alert's visibility that isn't drawn", "exhaustive", "DrawnAlert.kt",
            "            PushAlert.Visibility.SECRET -> notification.setVisibility(NotificationCompat.VISIBILITY_SECRET)\n", ""),
    Control("an installation ID taken from register(), which brings none", "type mismatch", "MessagingCalls.kt",
            "register().addOnCompleteListener { done(it.exception) }", "register().addOnSuccessListener { Campanile.registerInstallation(it) }"),
    Control("a registration without the app's version", "appVersion", "Campanile.kt", ", BuildConfig.VERSION_NAME, ", ", locale = "),
]


class Wrong(Exception):
    """Something that isn't as it should be, in a sentence."""


def say(text):
    print(f"kotlin: {text}", flush=True)


def kotlin_files(folder):
    files = sorted(folder.rglob("*.kt"))
    if not files:
        raise Wrong(f"no Kotlin in {folder}")
    return files


def compiled(kotlin, name, what, files, classpath=(), options=()):
    """The folder of the classes."""
    code, complaints, out = kotlin.build(name, files, classpath, options)
    if code:
        print(complaints, end="")
        raise Wrong(f"{what}: WRONG")
    say(f"{what}: {len(files)} files, nothing wrong")
    return out


# --- what stands for Android

def module_files(folder):
    """A file for each `package` part of android_modules/, with the line numbers of the whole."""
    files = [folder / "declared.kt"]
    files[0].write_text("fun declared(): Nothing = throw UnsupportedOperationException()\n", encoding="utf-8")
    for module in sorted(MODULES.glob("*.kt")):
        lines = module.read_text(encoding="utf-8").splitlines()
        starts = [number for number, line in enumerate(lines) if line.startswith("package ")]
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
            part = [lines[start] + "; import declared", *lines[start + 1:end]]
            file = folder / f"{module.stem}-{lines[start].removeprefix('package ')}.kt"
            file.write_text("\n" * start + "\n".join(part) + "\n", encoding="utf-8")
            files.append(file)
    return files


def resources():
    """The names in the app's resources, by kind."""
    found = {}
    for folder in [*sorted((APP / "src/main/res").iterdir()), *sorted((APP / "src/debug/res").iterdir())]:
        for file in sorted(folder.glob("*.xml")):
            root = xml.etree.ElementTree.parse(file).getroot()
            if folder.name == "values":
                for value in root:
                    found.setdefault(value.tag, set()).add(value.get("name"))
                continue
            found.setdefault(folder.name, set()).add(file.stem)
            found.setdefault("id", set()).update(re.findall(r'"@\+id/(\w+)"', file.read_text(encoding="utf-8")))
    return found


def resource_class(names):
    kinds = []
    for kind, values in sorted(names.items()):
        constants = "".join(f"        const val {value} = {number}\n" for number, value in enumerate(sorted(values), 1) if value.isidentifier())
        kinds.append(f"    object {kind} {{\n{constants}    }}\n")
    return "package com.example.shop\n\nobject R {\n" + "".join(kinds) + "}\n"


def check_resources(names):
    """Every resource that a manifest, a resource or the build names is there, and every class of a manifest."""
    classes = {file.stem for file in SOURCES.glob("*.kt")}
    for file in sorted(APP.rglob("*.xml")):
        text = file.read_text(encoding="utf-8")
        for kind, name in re.findall(r'"@(\w+)/([\w.]+)"', text):
            if name not in names.get(kind, ()):
                raise Wrong(f"{file.relative_to(ROOT)} names @{kind}/{name}, which isn't there")
        for name in re.findall(r'android:name="\.(\w+)"', text):
            if name not in classes:
                raise Wrong(f"{file.relative_to(ROOT)} names the class {name}, which isn't there")
    say("the app's resources and manifests name nothing that isn't there")


def check_channels():
    """Every category of the examples' server has a channel in the app: Android drops an alert of a channel that isn't there."""
    strings = xml.etree.ElementTree.parse(APP / "src/main/res/values/strings.xml").getroot()
    channels = {one.text for one in strings if (one.get("name") or "").endswith("_channel")}
    categories = yaml.safe_load((ROOT / "examples/campanile.yaml").read_text(encoding="utf-8"))["categories"]
    wanted = {(settings.get("android") or {}).get("channel_id", name) for name, settings in categories.items()}
    if not wanted or not wanted <= channels:
        raise Wrong(f"the app makes the channels {sorted(channels)}, and its server's categories name {sorted(wanted)}")
    say("the app makes a channel for each category of examples/campanile.yaml")


def build_settings():
    """BuildConfig's values by build type, as app/build.gradle.kts gives them."""
    text = (APP / "build.gradle.kts").read_text(encoding="utf-8")
    version = re.search(r'^ +versionName = "([^"]+)"$', text, re.MULTILINE)
    types = {}
    for name in ("debug", "release"):
        block = re.search(rf"^ +{name} \{{\n(.*?)^ +\}}$", text, re.DOTALL | re.MULTILINE)
        types[name] = dict(re.findall(r'buildConfigField\("String", "(\w+)", "\\"(.*?)\\""\)', block.group(1))) if block else {}
    if not version or types["debug"].keys() != types["release"].keys() or not types["debug"]:
        raise Wrong(f"app/build.gradle.kts gives {types}, version {version}")
    return version.group(1), types


def check_addresses(types):
    """The emulator's address, and speaking without TLS, are the debug build's alone."""
    for name, address in types["release"].items():
        if not address.startswith("https://"):
            raise Wrong(f"{name} of a release build is {address}")
    for file in sorted(path for path in APP.parent.rglob("*") if path.suffix in (".kt", ".kts", ".xml", ".json")):
        text = file.read_text(encoding="utf-8")
        if "src/debug" in file.as_posix() or file.name == "build.gradle.kts":
            continue
        if "10.0.2.2" in text or re.search(r"cleartextTrafficPermitted|usesCleartextTraffic|networkSecurityConfig", text):
            raise Wrong(f"{file.relative_to(ROOT)} has what is for debug builds alone")
    say("a release build has addresses with TLS, and nothing of the emulator's")


def build_config(version, values):
    fields = "".join(f'    const val {name}: String = "{value}"\n' for name, value in sorted(values.items()))
    return ("package com.example.shop\n\nobject BuildConfig {\n    val DEBUG: Boolean = System.nanoTime() > 0\n"
            f'    const val VERSION_NAME: String = "{version}"\n{fields}}}\n')


# --- the app

def check_app(kotlin, folder, library):
    names = resources()
    check_resources(names)
    check_channels()
    version, types = build_settings()
    check_addresses(types)
    parts = folder / "modules"
    parts.mkdir()
    modules = compiled(kotlin, "modules", "the declarations of Android, AndroidX, Firebase, Material and Hotwire Native", module_files(parts))
    made = [folder / "R.kt", folder / "BuildConfig.kt"]
    made[0].write_text(resource_class(names), encoding="utf-8")
    made[1].write_text(build_config(version, types["debug"]), encoding="utf-8")
    app = kotlin_files(APP / "src")
    classpath = (library, modules)
    compiled(kotlin, "app", "examples/android", [*app, *made], classpath)
    check_document(kotlin, folder, classpath)
    # All mistakes at once: the compiler goes on after each.
    changed = {}
    for control in CONTROLS:
        text = changed.get(control.file) or (SOURCES / control.file).read_text(encoding="utf-8")
        if control.instead_of not in text:
            raise Wrong(f"{control.file} hasn't what a control changes: {control.instead_of}")
        changed[control.file] = text.replace(control.instead_of, control.text)
    mistakes = folder / "mistakes"
    mistakes.mkdir()
    for name, text in changed.items():
        (mistakes / name).write_text(text, encoding="utf-8")
    files = [mistakes / file.name if file.name in changed else file for file in app]
    complaints = kotlin.compile([*files, *made], folder / "out-mistakes", classpath)[1]
    for control in CONTROLS:
        if not any(f"{control.file}:" in line and "error: " in line and control.named in line for line in complaints.splitlines()):
            print(complaints, end="")
            raise Wrong(f"not refused as it should be: {control.mistake}")
        say(f"refused: {control.mistake}")


def check_document(kotlin, folder, classpath):
    """The ```kotlin blocks of docs/integration.md as one program; a block that says `in PushService` is members of that class."""
    text = DOCUMENT.read_text(encoding="utf-8")
    for language in ("kotlin", "swift"):
        found = re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        if not any('"app_version"' in block and "/device_tokens" in block for block in found):
            raise Wrong(f"docs/integration.md registers no app_version in {language}")
    blocks = re.findall(r"^```kotlin\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    members = [block for block in blocks if "in PushService" in block]
    program = "".join(block for block in blocks if block not in members)
    marker = "    override fun onNewToken"
    if not members or marker not in program:
        raise Wrong("docs/integration.md shows no PushService")
    program = program.replace(marker, "".join(members) + marker)
    file = folder / "integration.kt"
    file.write_text("package documented\n\n" + program, encoding="utf-8")
    config = folder / "DocumentedBuildConfig.kt"
    config.write_text('package documented\n\nobject BuildConfig {\n    const val VERSION_NAME: String = "2.1.0"\n}\n', encoding="utf-8")
    compiled(kotlin, "document", "the Kotlin of docs/integration.md", [file, config], classpath)
    block = re.search(r"^```kotlin\n(.*?)^```$", README.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    if not block:
        raise Wrong("clients/kotlin/README.md shows no Kotlin")
    file = folder / "readme.kt"
    file.write_text(README_CONTEXT % block.group(1), encoding="utf-8")
    compiled(kotlin, "readme", "the Kotlin of clients/kotlin/README.md", [file], classpath)


# --- the library

def run_tests(kotlin, classpath, *arguments):
    code, printed = kotlin.run(classpath, "com.campanile.Main", *arguments)
    return code, printed


def check_library(kotlin, folder, binary):
    library = compiled(kotlin, "library", "clients/kotlin", kotlin_files(LIBRARY / "main"))
    tests = compiled(kotlin, "tests", "its tests", kotlin_files(LIBRARY / "test"), (library,), (f"-Xfriend-paths={library}",))
    server = folder / "server"
    server.mkdir()
    simulator = Simulator(binary, str(server), seed=27)
    settings = json.loads(simulator.settings(["default"])) | {"deep_links": DEEP_LINKS}
    with serving(binary, configuration=json.dumps(settings)) as program:
        reach = {"address": f"http://127.0.0.1:{program.port}", "key": program.producer_key("kotlin"), "record": simulator.record,
                 "tokens": {user: program.user_token(user) for user in USERS}}
        file = server / "server.json"
        file.write_text(json.dumps(reach), encoding="utf-8")
        code, printed = run_tests(kotlin, (library, tests), "all", VECTORS, file)
    print(printed, end="", flush=True)
    if code:
        raise Wrong("the tests of clients/kotlin: WRONG")
    return library, tests


# --- the cases of all clients

def change(value):
    """A value that is wrong wherever the one given is right."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, list):
        return [*value, "x"]
    if isinstance(value, dict):
        return {**value, next(iter(value)): change(next(iter(value.values())))} if value else {"x": 1}
    return "x"


# In each list of each file, where an expectation stands. Only Swift reads Apple's payloads.
EXPECTATIONS = {
    "deep_links": [("links", 0, "chain"), ("refused", 0, "because"), ("addresses", 0, "chain"), ("versions", 0, "is_reached")],
    "payloads": [("firebase", 0, "payload"), ("apple", 0, "payload")],
    "numbers": [("sequences", 0, "steps", 0, "count")],
    "stream_events": [("texts", 0, "events"), ("inbox", 0, "change")],
}
SWIFT_ALONE = {("payloads", "apple")}
SENTENCES = {"deep_links": "deep links", "payloads": "payloads", "numbers": "numbers", "stream_events": "stream events"}


def changed_vectors(folder):
    """(file, list, a copy of clients/vectors with one wrong expectation, in that list), for every list."""
    for file in sorted(VECTORS.glob("*.json")):
        vectors = json.loads(file.read_text(encoding="utf-8"))
        if (lists := {key for key, value in vectors.items() if isinstance(value, list)}) != {path[0] for path in EXPECTATIONS[file.stem]}:
            raise Wrong(f"{file.name} has the lists {sorted(lists)}; EXPECTATIONS names others")
        for *path, last in EXPECTATIONS[file.stem]:
            changed = json.loads(json.dumps(vectors))
            place = changed
            for step in path:
                place = place[step]
            place[last] = change(place[last])
            copy = folder / f"changed-{file.stem}-{path[0]}"
            shutil.copytree(VECTORS, copy)
            (copy / file.name).write_text(json.dumps(changed), encoding="utf-8")
            yield file.stem, path[0], copy


def run_swift(swift_tests, vectors):
    """(exit code, what it printed without colours)."""
    done = subprocess.run(
        [swift_tests, "--testing-library", "swift-testing", "--filter", "CampanileClientTests.VectorTests"], text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "CAMPANILE_VECTORS": str(vectors)})
    return done.returncode, re.sub(r"\x1b\[\d+m", "", done.stdout)


def check_changed_vectors(kotlin, classpath, folder, swift_tests):
    changed = list(changed_vectors(folder))
    for name, part, vectors in changed:
        code, printed = run_tests(kotlin, classpath, "vectors", vectors)
        if (name, part) not in SWIFT_ALONE and (code == 0 or not re.search(rf"^FAILED: {SENTENCES[name]}: ", printed, re.MULTILINE)):
            raise Wrong(f"a changed case of {part} in {name}.json passes Kotlin's tests:\n{printed}")
    say(f"a changed case in each of {len(changed) - len(SWIFT_ALONE)} lists of clients/vectors fails Kotlin's tests")
    if not swift_tests:
        return say("Swift's tests weren't asked about changed cases: --swift-tests names them")
    code, printed = run_swift(swift_tests, VECTORS)
    for sentence in SENTENCES.values():
        if code or not re.search(rf'✔ Test "{sentence}: .*" passed after', printed):
            raise Wrong(f"the cases as they are, with Swift's tests:\n{printed}")
    for name, part, vectors in changed:
        code, printed = run_swift(swift_tests, vectors)
        if code == 0 or not re.search(rf'✘ Test "{SENTENCES[name]}: .*" failed after', printed):
            raise Wrong(f"a changed case of {part} in {name}.json passes Swift's tests:\n{printed}")
    say(f"and in each of {len(changed)} Swift's tests, which pass with the cases as they are")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / ".build/debug/campanile"), help="the campanile program (default .build/debug/campanile)")
    parser.add_argument("--swift-tests", help="the program of the Swift tests, such as .build/debug/campanilePackageTests.xctest")
    options = parser.parse_args()
    try:
        with Kotlin() as kotlin, tempfile.TemporaryDirectory(prefix="campanile-kotlin-") as name:
            folder = pathlib.Path(name)
            library, tests = check_library(kotlin, folder, options.binary)
            check_changed_vectors(kotlin, (library, tests), folder, options.swift_tests)
            check_app(kotlin, folder, library)
    except (KotlinError, Wrong) as failure:
        sys.exit(f"kotlin: {failure}")


if __name__ == "__main__":
    main()
