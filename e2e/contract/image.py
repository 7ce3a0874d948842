"""The image that scripts/image.sh built: its settings, its sizes, and its program, run in a chroot as the image's user with a
read-only root.

Prints what it found; exit code 1 if anything is wrong. Needs root; what stands in for an engine: image_root.py.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request

from e2e.contract.image_root import Container, Image
from e2e.harness import HarnessError, Report, free_port, temporary_folder

MOST_BYTES = 60_000_000       # beyond the base
MOST_BINARY_MIB = 36
WAIT_SECONDS = 30


def size(path):
    """The bytes of all files below, each once."""
    return int(subprocess.run(["du", "-sb", "--apparent-size", str(path)], capture_output=True, text=True, check=True)
               .stdout.split()[0])


def check_settings(image, report):
    settings = image.settings
    uid, _ = image.user()
    report.check("settings", uid >= 1000, f"the user is {uid}")
    # A cluster that starts nothing as root (runAsNonRoot) can't tell by a name, and refuses.
    report.check("settings", settings["User"].isdecimal(), f"the user is named {settings['User']}, and not by its number")
    report.check("settings", settings["Entrypoint"] == ["campanile"] and settings["Cmd"] == ["serve"], settings)
    report.check("settings", "/data" in settings["Volumes"], "no volume /data")
    report.check("settings", "3001/tcp" in settings["ExposedPorts"], "port 3001 isn't exposed")
    report.check("settings", settings["Healthcheck"]["Test"] == ["CMD", "campanile", "health"], "no health check")
    labels = settings["Labels"]
    for label in ("title", "description", "version", "revision"):
        report.check("settings", labels.get(f"org.opencontainers.image.{label}"), f"no label {label}")
    secrets = [one for one in settings["Env"] if re.search("SECRET|TOKEN|PASSWORD", one)]
    report.check("settings", not secrets, "a secret in the environment")
    data = image.path("/data").stat()
    report.check("settings", (data.st_uid, data.st_mode & 0o777) == (uid, 0o700), "/data isn't the user's own")
    print(f"settings: user {uid}, volume /data, port 3001, health check "
          f"{' '.join(settings['Healthcheck']['Test'][1:])}, {len(labels)} labels")


def check_sizes(image, report):
    binary = image.path("/usr/local/bin/campanile")
    whole, program = size(image.root), binary.stat().st_size
    beyond = whole - image.base_bytes
    sections = subprocess.run(["readelf", "--section-headers", "--wide", str(binary)], capture_output=True, text=True).stdout
    report.check("sizes", ".symtab" not in sections, "the program isn't stripped")
    report.check("sizes", beyond <= MOST_BYTES, f"{beyond:,} bytes beyond the base")
    report.check("sizes", program <= MOST_BINARY_MIB * 2**20, f"the program has {program:,} bytes")
    print(f"sizes: base {image.base_bytes / 1e6:.1f} MB, image {whole / 1e6:.1f} MB, beyond the base {beyond / 1e6:.1f} MB")
    print(f"sizes: the program {program / 2**20:.1f} MiB, its libraries and the certificates {(beyond - program) / 1e6:.1f} MB")
    content = binary.read_bytes()
    # The table of contents of ICU's data: its header says 'CmnD', and what stands behind it is read by its own offsets.
    at = content.find(b"CmnD")
    if at < 12:
        print("sizes: the program holds no data of ICU")
        return
    begin = at - 12
    header, = (int.from_bytes(content[begin:begin + 2], "little"),)
    contents = begin + header
    count = int.from_bytes(content[contents:contents + 4], "little")
    last = int.from_bytes(content[contents + 4 + (count - 1) * 8 + 4:contents + 4 + count * 8], "little")
    print(f"sizes: of the program, Foundation's ICU data is more than {(header + last) / 2**20:.1f} MiB, in {count} items")


def answer(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=WAIT_SECONDS) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def check_program(image, report, folder):
    """Serves with a read-only root, a volume and no capability; the health check; a command beside it; a stop, a second start."""
    uid, gid = image.user()
    volume = folder / "data"
    volume.mkdir(mode=0o700)
    os.chown(volume, uid, gid)
    port = free_port()
    container = Container(image, folder / "serve", environment={
        "CAMPANILE_PORT": str(port), "CAMPANILE_HOST": "127.0.0.1"}, mounts=[(volume, "/data", True)])
    code, out, err = container.run("campanile", "health")
    report.check("program", code == 1 and "can't be reached" in err, f"health without a server: {code} {err}")
    for turn in ("first", "second"):
        container.start()
        deadline = time.monotonic() + WAIT_SECONDS
        while (health := container.run("campanile", "health", "--ready"))[0] != 0 and time.monotonic() < deadline:
            time.sleep(0.1)
        report.check("program", health[0] == 0, f"the {turn} start: {health[2]}\n{container.output()}")
        print(f"program: {turn} start: {health[2]}")
        process = container.own_process()
        status = pathlib.Path(f"/proc/{process}/status").read_text()
        report.check("program", re.search(rf"^Uid:\t{uid}\t{uid}\t{uid}\t{uid}$", status, re.M), "it has another user")
        report.check("program", re.search(r"^CapEff:\t0+$", status, re.M) and re.search(r"^CapBnd:\t0+$", status, re.M),
                     "it has capabilities")
        report.check("program", re.search(r"^NoNewPrivs:\t1$", status, re.M), "it may get privileges")
        code, out, err = container.run("sh", "-c", "for folder in / /tmp /etc/campanile /usr/local/bin /data; do "
                                                   "touch $folder/probe && echo $folder; done; rm /data/probe")
        report.check("program", out == "/data", f"these can be written: {out}")
        code, key, err = container.run("campanile", "keys", "create", turn)
        report.check("program", code == 0 and key.startswith("cmp_"), f"keys create: {err}")
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/notifications", method="POST",
            data=json.dumps({"user_id": "alice", "title": turn, "body": "World"}).encode(),
            headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as response:
            report.check("program", response.status == 201, f"a create: {response.status}")
        code, token, err = container.run("campanile", "token", "alice")
        request = urllib.request.Request(f"http://127.0.0.1:{port}/notifications", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as response:
            titles = [one["title"] for one in json.load(response)["notifications"]]
        report.check("program", titles == {"first": ["first"], "second": ["second", "first"]}[turn], f"the list: {titles}")
        code = container.stop()
        report.check("program", code == 0, f"it ended with {code}:\n{container.output()[-2000:]}")
    names = sorted(one.name for one in volume.iterdir())
    print(f"program: uid {uid}, no capability, root read-only; two starts and stops; in the volume: {', '.join(names)}")
    left = subprocess.run(["ldd", str(image.path("/usr/local/bin/campanile"))], capture_output=True, text=True).stdout
    print("program: links " + ", ".join(sorted(set(re.findall(r"^\s*(lib\S+)", left, re.M)))))
    container.remove()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--image", required=True, help="the folder that scripts/image.sh was given")
    options = parser.parse_args()
    image, report = Image(options.image), Report()
    check_settings(image, report)
    check_sizes(image, report)
    with temporary_folder("campanile-image-") as folder:
        check_program(image, report, pathlib.Path(folder))
    report.print_wrong()
    print(f"image: {sum(report.checked.values())} checks, {len(report.wrong)} wrong")
    return 1 if report.wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except HarnessError as error:
        sys.exit(f"image.py: {error}")
