#!/usr/bin/env python3
"""Lists what is linked into the program, and collects the licences of it.

    scripts/linked.py list           a line for each: name, version, licence, address
    scripts/linked.py licences DIR   the texts, in a folder of DIR for each

The packages and their versions are those that the build resolved (BUILD, .build by default), and so are the sources of others that they
carry. SWIFT names the compiler whose libraries stand in the program. A package without an entry in LICENCES is an error: somebody has to
read its licence first.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

BUILD = pathlib.Path(os.environ.get("BUILD", ".build"))
SWIFT = os.environ.get("SWIFT", "swift")
# The format of workspace-state.json that is read here.
STATE_VERSION = 7

WITH_EXCEPTION = "Apache-2.0 WITH Swift-exception"
LICENCES = {
    "jwt-kit": "MIT",
    "swift-argument-parser": WITH_EXCEPTION,
    "swift-asn1": "Apache-2.0",
    "swift-atomics": WITH_EXCEPTION,
    "swift-certificates": "Apache-2.0",
    "swift-collections": WITH_EXCEPTION,
    "swift-crypto": "Apache-2.0",
    "swift-log": "Apache-2.0",
    "swift-nio": "Apache-2.0",
    "swift-nio-http2": "Apache-2.0",
    "swift-nio-ssl": "Apache-2.0",
    "swift-system": WITH_EXCEPTION,
}
# Resolved, and in no program.
OF_TESTS = {"yams"}


@dataclass
class Linked:
    """A piece of the program that somebody else wrote. `texts` are files, `notices` are made of comments in its sources."""
    name: str
    version: str
    licence: str
    home: str
    purl: str | None = None
    revision: str | None = None
    texts: list[pathlib.Path] = field(default_factory=list)
    notices: dict[str, str] = field(default_factory=dict)


class MissingError(Exception):
    pass


def packages() -> Iterator[tuple[Linked, pathlib.Path]]:
    """The resolved Swift packages, each with its checkout."""
    path = BUILD / "workspace-state.json"
    if not path.exists():
        raise MissingError(f"{path} isn't there: `make build` leaves it, and BUILD names another folder")
    state = json.loads(path.read_text())
    if state["version"] != STATE_VERSION:
        raise MissingError(f"{path} has format {state['version']}, not {STATE_VERSION}: look whether it still says the same")
    for one in sorted(state["object"]["dependencies"], key=lambda one: one["packageRef"]["identity"]):
        identity, location = one["packageRef"]["identity"], one["packageRef"]["location"].removesuffix(".git")
        resolved = one["state"]["checkoutState"]
        if identity in OF_TESTS:
            continue
        if identity not in LICENCES:
            raise MissingError(f"the licence of {identity} isn't known: read it, and enter it in {__file__}")
        checkout = BUILD / "checkouts" / one["subpath"]
        texts = sorted(path for path in checkout.iterdir() if re.match(r"LICEN[CS]E|NOTICE|COPYING", path.name, re.I) and path.is_file())
        if not texts:
            raise MissingError(f"{checkout} has no licence")
        version = resolved.get("version") or resolved["revision"]
        yield Linked(identity, version, LICENCES[identity], location, f"pkg:swift/{location.removeprefix('https://')}@{version}",
                     resolved["revision"], texts), checkout


def carried(checkouts: dict[str, pathlib.Path]) -> Iterator[Linked]:
    """What the packages carry of others in their own sources."""
    for package, folder in (("swift-crypto", "CCryptoBoringSSL"), ("swift-nio-ssl", "CNIOBoringSSL")):
        sources = checkouts[package] / "Sources" / folder
        revision = re.search(r"revision ([0-9a-f]{40})", (sources / "hash.txt").read_text())
        if not revision:
            raise MissingError(f"{sources}/hash.txt names no revision")
        yield Linked(f"BoringSSL in {package}", revision[1][:12], "Apache-2.0", "https://boringssl.googlesource.com/boringssl",
                     revision=revision[1], texts=[checkouts[package] / "LICENSE.txt"], notices={"COPYRIGHT.txt": holders(sources)})
    keccak = checkouts["swift-crypto"] / "Sources/CXKCP"
    named = re.search(r"-g([0-9a-f]+)\)", (keccak / "vendored-sources.txt").read_text())
    yield Linked("XKCP in swift-crypto", named[1] if named else "unknown", "CC0-1.0", "https://github.com/XKCP/XKCP",
                 notices={"LICENSE.txt": comment(keccak / "FIPS202-opt64/KeccakHash.c")})
    nio = checkouts["swift-nio"] / "Sources"
    yield Linked("llhttp in swift-nio", llhttp_version(nio / "CNIOLLHTTP"), "MIT", "https://github.com/nodejs/llhttp",
                 texts=[nio / "CNIOLLHTTP/LICENSE"])
    yield Linked("sha1.c in swift-nio", "1.5", "BSD-3-Clause", "https://github.com/freebsd/freebsd-src",
                 notices={"LICENSE.txt": comment(nio / "CNIOSHA1/c_nio_sha1.c", "Copyright")})


def llhttp_version(sources: pathlib.Path) -> str:
    header = "\n".join(path.read_text() for path in sorted(sources.rglob("*llhttp.h")))
    parts = [re.search(rf"LLHTTP_VERSION_{part} (\d+)", header) for part in ("MAJOR", "MINOR", "PATCH")]
    return ".".join(part[1] for part in parts if part) or "unknown"


def comment(source: pathlib.Path, word: str = "") -> str:
    """The first comment of a source in C that holds a word."""
    for found in re.finditer(r"/\*.*?\*/", source.read_text(), re.S):
        if word in found[0]:
            return found[0] + "\n"
    raise MissingError(f"{source} has no comment with '{word}'")


def holders(sources: pathlib.Path) -> str:
    """Each line of the sources that names a holder of the copyright, once."""
    lines = {found[1].strip() for path in sources.rglob("*") if path.is_file()
             for found in re.finditer(r"^[/ *#]*(Copyright [^\n]*\d{4}[^\n]*)$", path.read_text(errors="replace"), re.M)}
    return "\n".join(sorted(lines)) + "\n"


def swift() -> Iterator[Linked]:
    """The libraries of Swift itself, which are linked statically: its runtime, FoundationEssentials and Dispatch."""
    said = subprocess.run([SWIFT, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"Swift version (\S+)", said)
    if not version:
        raise MissingError(f"{SWIFT} --version names no version")
    program = shutil.which(SWIFT)
    text = pathlib.Path(program or SWIFT).resolve().parents[1] / "share/swift/LICENSE.txt"
    if not text.exists():
        raise MissingError(f"Swift's own licence isn't at {text}")
    yield Linked("swift", version[1], WITH_EXCEPTION, "https://github.com/swiftlang/swift",
                 f"pkg:github/swiftlang/swift@swift-{version[1]}-RELEASE", texts=[text])


def linked() -> list[Linked]:
    resolved = list(packages())
    return [*(one for one, _ in resolved), *carried({one.name: checkout for one, checkout in resolved}), *swift()]


def collect(folder: pathlib.Path) -> None:
    for one in linked():
        place = folder / one.name.replace(" ", "-")
        place.mkdir(parents=True)
        for text in one.texts:
            name = text.name if "." in text.name else f"{text.name}.txt"
            (place / name).write_bytes(text.read_bytes())
        for name, notice in one.notices.items():
            (place / name).write_text(notice)


def main() -> None:
    match sys.argv[1:]:
        case ["list"]:
            for one in linked():
                print(f"{one.name} {one.version}: {one.licence}, {one.home}")
        case ["licences", folder]:
            collect(pathlib.Path(folder))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main()
    except MissingError as error:
        sys.exit(f"linked.py: {error}")
