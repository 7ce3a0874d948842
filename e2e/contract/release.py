"""A release as scripts/release.sh leaves it: the sums, the tarball, the Debian package with lintian's verdict, the gem, the SBOM, the image's archive.

With --twice the script makes the release once more, into a temporary folder, and every file must have the same bytes. Prints what it found;
exit code 1 if anything is wrong. What runs of the image is e2e/contract/image.py's. Needs Debian's lintian, and the virtual environment
`release` (e2e/venv.sh release).
"""
import argparse
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from e2e import ROOT
from e2e.harness import HarnessError, Report, temporary_folder

# What the program links, each with Debian's package in the documents.
NEEDED = {"libsqlite3", "libyaml-0", "libmicrohttpd", "libstdc++", "libm", "libgcc_s", "libc", "ld-linux-x86-64"}
VERSION = re.search(r'current = "(.+)"', (ROOT / "Sources/CampanileServer/Domain/ProgramVersion.swift").read_text())[1]
IN_TARBALL = {
    "campanile", "README.md", "CHANGELOG.md", "campanile.example.yaml", "campanile.service", "campanile.socket", "nginx.conf",
    "nginx-app-host.conf", "Caddyfile", "grafana-dashboard.json", "licences",
}
IN_PACKAGE = {
    "./usr/bin/campanile", "./etc/campanile/campanile.yaml", "./lib/systemd/system/campanile.service",
    "./lib/systemd/system/campanile.socket", "./usr/share/man/man1/campanile.1.gz", "./usr/share/doc/campanile/copyright",
    "./usr/share/doc/campanile/changelog.Debian.gz", "./usr/share/doc/campanile/examples/campanile.example.yaml",
}
LIBRARIES = ("libmicrohttpd12", "libsqlite3-0", "libyaml-0-2", "libpq5", "libstdc++6", "ca-certificates", "adduser")
# Lines of packaging/campanile.service that the packaged service must keep.
UNCHANGED = re.compile(
    r"^(?:User|Group|Protect\w+|Private\w+|Restrict\w+|SystemCall\w+|CapabilityBoundingSet|NoNewPrivileges|Memory\w+|Lock\w+|State\w+|UMask)=.*$", re.M)


def output(*arguments, **options):
    done = subprocess.run(arguments, capture_output=True, **options)
    if done.returncode != 0:
        raise HarnessError(f"{' '.join(map(str, arguments))}: {done.stderr.decode(errors='replace')}")
    return done.stdout


def only(folder, pattern):
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise HarnessError(f"{folder} has {len(found)} files {pattern}")
    return found[0]


def digest(content):
    return hashlib.sha256(content).hexdigest()


def check_sums(folder, report):
    sums = {name: value for value, name in (line.split() for line in (folder / "SHA256SUMS").read_text().splitlines())}
    files = {path.name: digest(path.read_bytes()) for path in folder.iterdir() if path.name != "SHA256SUMS"}
    report.check("sums", sums == files, f"{sums} isn't {files}")
    for name in sorted(files):
        print(f"sums: {name}, {(folder / name).stat().st_size / 1e6:.1f} MB")


def check_tarball(folder, report, scratch):
    """Gives the program."""
    path = only(folder, "campanile-*-linux-*.tar.gz")
    # Four bytes of gzip's header tell a time, if one is told.
    report.check("tarball", path.read_bytes()[4:8] == bytes(4), "gzip keeps a time")
    with tarfile.open(path) as archive:
        members = archive.getmembers()
        archive.extractall(scratch, filter="data") if hasattr(tarfile, "data_filter") else archive.extractall(scratch)
    top = path.name.removesuffix(".tar.gz")
    names = [member.name for member in members]
    in_order = sorted(names, key=lambda name: name.split("/"))
    report.check("tarball", names == in_order and {name.split("/")[0] for name in names} == {top}, f"names: {names[:5]}")
    report.check("tarball", {(member.uid, member.gid) for member in members} == {(0, 0)}, "its files belong to somebody")
    report.check("tarball", len({member.mtime for member in members}) == 1, "its files have several times")
    found = {one.name for one in (scratch / top).iterdir()}
    report.check("tarball", found == IN_TARBALL, f"it holds {sorted(found ^ IN_TARBALL)} too, or not")
    program = scratch / top / "campanile"
    said = output(program, "--version").decode().strip()
    report.check("tarball", said.split()[0] == VERSION and f"-{VERSION}-" in path.name, f"the program is {said}, and the sources are {VERSION}")
    needed = set(re.findall(r"NEEDED.*\[(.+?)\.so", output("readelf", "--dynamic", program).decode()))
    report.check("tarball", needed == NEEDED, f"the program links {sorted(needed ^ NEEDED)} too, or not")
    held = program.read_bytes()
    report.check("tarball", b"icudt" not in held, "ICU's data is in the program: something uses all of Foundation")
    report.check("tarball", str(ROOT).encode() not in held, f"the program names the folder {ROOT}")
    sections = output("readelf", "--section-headers", "--dynamic", "--wide", program).decode()
    report.check("tarball", ".symtab" not in sections and "PATH)" not in sections, "the program isn't stripped, or names places of libraries")
    report.check("tarball", "libswift" not in sections and "libFoundation" not in sections, "Swift's libraries aren't in the program")
    licences = scratch / top / "licences"
    empty = [one.name for one in licences.iterdir() if not any(text.stat().st_size > 100 for text in one.iterdir())]
    report.check("tarball", not empty, f"no licence of {empty}")
    print(f"tarball: campanile {said}, {program.stat().st_size / 2**20:.1f} MiB, {len(list(licences.iterdir()))} licences")
    return program


def check_package(folder, report, program):
    path = only(folder, "campanile_*.deb")
    fields = output("dpkg-deb", "--field", path).decode()
    report.check("package", f"\nVersion: {VERSION}-1\n" in fields, fields)
    report.check("package", all(one in re.search(r"^Depends: (.*)$", fields, re.M)[1] for one in LIBRARIES), fields)
    report.check("package", "none chosen" in fields and "example.com" not in fields, fields)
    contents = {}
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", path], stdout=subprocess.PIPE) as process:
        with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
            for member in archive:
                contents[member.name] = archive.extractfile(member).read() if member.isfile() else None
                report.check("package", (member.uname, member.gname) == ("root", "root"), f"{member.name} is {member.uname}'s")
    report.check("package", contents.keys() >= IN_PACKAGE, f"it lacks {sorted(IN_PACKAGE - contents.keys())}")
    report.check("package", contents["./usr/bin/campanile"] == program.read_bytes(), "its program isn't the tarball's")
    unit, ours = contents["./lib/systemd/system/campanile.service"].decode(), (ROOT / "packaging/campanile.service").read_text()
    report.check("package", "ExecStart=/usr/bin/campanile serve" in unit and "/usr/local" not in unit, unit)
    report.check("package", len(UNCHANGED.findall(ours)) > 20 and UNCHANGED.findall(unit) == UNCHANGED.findall(ours), "the hardening differs")
    changes = gzip.decompress(contents["./usr/share/doc/campanile/changelog.Debian.gz"]).decode()
    report.check("package", changes.startswith(f"campanile ({VERSION}-1)"), changes)
    print(f"package: {path.name}, {re.search('^Depends: (.*)$', fields, re.M)[0]}")
    # lintian warns of root, who may make releases all the same.
    said = output("lintian", "--allow-root", "--fail-on", "none", "--show-overrides", path).decode().splitlines()
    found = {kind: [line for line in said if line.startswith(f"{kind}: ")] for kind in "EWO"}
    report.check("lintian", not found["E"] and not found["W"], "\n".join(said))
    # Without them lintian looked at nothing.
    report.check("lintian", found["O"], "the tags that packaging/debian/lintian-overrides names aren't there: take them away")
    tags = sorted({line.split()[2] for line in found["O"]})
    print(f"lintian: {len(found['E'])} errors, {len(found['W'])} warnings; overridden: {', '.join(tags)}")


def check_gem(folder, report):
    path = only(folder, "campanile-*.gem")
    with tarfile.open(path) as gem:
        metadata = gzip.decompress(gem.extractfile("metadata.gz").read()).decode()
        with tarfile.open(fileobj=gem.extractfile("data.tar.gz"), mode="r:gz") as data:
            held = {member.name: data.extractfile(member).read() for member in data.getmembers()}
    ours = ROOT / "clients/ruby"
    wanted = {str(one.relative_to(ours)): one.read_bytes() for one in [*(ours / "lib").rglob("*"), ours / "README.md"] if one.is_file()}
    report.check("gem", path.name == f"campanile-{VERSION}.gem" and f"version: {VERSION}\n" in metadata, f"{path.name}: {metadata[:300]}")
    report.check("gem", held == wanted, f"it holds {sorted(held.keys() ^ wanted.keys())} too, or not")
    print(f"gem: {path.name}, {len(held)} files")


def check_sbom(folder, report, program):
    text = only(folder, "campanile-*-linux-*.cdx.json").read_text()
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    report.check("sbom", validator.validate_str(text) is None, lambda: str(validator.validate_str(text)))
    # The control: a component without a name must be refused.
    report.check("sbom", validator.validate_str(text.replace('"name": "swift-nio"', '"title": "swift-nio"')) is not None, "all is valid")
    bom = json.loads(text)
    whole = bom["metadata"]["component"]
    report.check("sbom", whole["version"] == VERSION and whole["hashes"][0]["content"] == digest(program.read_bytes()), f"of: {whole}")
    names = {one["name"] for one in bom["components"]}
    licences = {one.name for one in (program.parent / "licences").iterdir()}
    report.check("sbom", {name.replace(" ", "-") for name in names} >= licences, f"it lacks {licences - names}")
    report.check("sbom", {"swift", "libmicrohttpd12", "libsqlite3-0", "libyaml-0-2", "libpq5", "libc6"} <= names, f"it has {sorted(names)}")
    report.check("sbom", all(one.get("version") for one in bom["components"]), "a component without a version")
    print(f"sbom: CycloneDX {bom['specVersion']}, {len(names)} components, {bom['serialNumber']}")


def check_image(folder, report, program):
    path = only(folder, "campanile-*-oci-*.tar")
    with tarfile.open(path) as archive:
        members = archive.getmembers()
        contents = {member.name: archive.extractfile(member).read() for member in members}
    report.check("image", {(one.mtime, one.uid, one.gid, one.uname) for one in members} == {(0, 0, 0, "")}, "the archive tells times or owners")
    wrong = [name for name, content in contents.items() if name.startswith("blobs/") and digest(content) != name.rpartition("/")[2]]
    report.check("image", not wrong, f"not what their names say: {wrong}")

    def blob(described):
        return contents["blobs/" + described["digest"].replace(":", "/")]

    one, = json.loads(contents["index.json"])["manifests"]
    manifest = json.loads(blob(one))
    settings = json.loads(blob(manifest["config"]))
    layers = [gzip.decompress(blob(layer)) for layer in manifest["layers"]]
    report.check("image", [f"sha256:{digest(layer)}" for layer in layers] == settings["rootfs"]["diff_ids"], "its layers aren't the settings'")
    labels = settings["config"]["Labels"]
    report.check("image", labels["org.opencontainers.image.version"] == VERSION, labels)
    revision = output("git", "rev-parse", "HEAD", cwd=ROOT).decode().strip()
    report.check("image", labels["org.opencontainers.image.revision"] == revision, labels)
    architecture = output("dpkg", "--print-architecture").decode().strip()
    report.check("image", one["platform"] == {"architecture": architecture, "os": "linux"} and architecture in path.name, one["platform"])
    # OCI's settings have no such field; Docker and podman read it all the same.
    report.check("image", settings["config"].get("Healthcheck"), "the health check is lost")
    with tarfile.open(fileobj=io.BytesIO(layers[-1])) as layer:
        packed = layer.extractfile("usr/local/bin/campanile").read()
    report.check("image", packed == program.read_bytes(), "its program isn't the tarball's")
    print(f"image: {len(layers)} layers, {one['platform']['architecture']}, manifest {one['digest'][:19]}, created {settings['created']}")


def check_twice(folder, report, scratch):
    subprocess.run([ROOT / "scripts/release.sh", scratch / "again"], stdout=subprocess.DEVNULL, check=True)
    for path in sorted(folder.iterdir()):
        again = scratch / "again" / path.name
        report.check("twice", again.exists() and again.read_bytes() == path.read_bytes(), f"{path.name} has other bytes the second time")
    report.check("twice", len(list(folder.iterdir())) == len(list((scratch / "again").iterdir())), "other files")
    print("twice: made again, and compared")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--folder", default=ROOT / "dist", type=pathlib.Path, help="default: %(default)s")
    parser.add_argument("--twice", action="store_true", help="make the release again, and compare the bytes")
    options = parser.parse_args()
    report = Report()
    with temporary_folder("campanile-release-") as name:
        scratch = pathlib.Path(name)
        check_sums(options.folder, report)
        program = check_tarball(options.folder, report, scratch)
        check_package(options.folder, report, program)
        check_gem(options.folder, report)
        check_sbom(options.folder, report, program)
        if os.environ.get("IMAGE") != "no":
            check_image(options.folder, report, program)
        if options.twice:
            check_twice(options.folder, report, scratch)
    report.print_wrong()
    print(f"release: {sum(report.checked.values())} checks, {len(report.wrong)} wrong")
    return 1 if report.wrong else 0


if __name__ == "__main__":
    os.umask(0o022)
    try:
        sys.exit(main())
    except HarnessError as error:
        sys.exit(f"release.py: {error}")
