"""Plays examples/ios on Linux: the app's own sources and CampanileClient, in a phone that is made up in ios_shell/.

UIKit, WebKit and Hotwire Native are made again there with bodies: who appears and disappears, what is presented, what a session
visits and a web view shows, by the library's sources at 1.2.2, 1.3.0-beta and main; each rule names the file that it is from. With
main the app is played with its patch. The web site is made up too; the calls to Campanile go to a server that notes them. Each
scene is a program of its own.

Then the controls: what the app once did is put back, piece by piece, and a scene must go wrong. Exit code 1 if a scene goes wrong
or a control doesn't.
"""
import argparse
import base64
import concurrent.futures
import dataclasses
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading

from e2e import ROOT
from e2e.contract.ios_shell_controls import CONTROLS, PATCH_CONTROLS
from e2e.contract.typecheck_ios import EXAMPLE, HERE, PACKAGE, app_files, patched_example, swift_files

PHONE = HERE / "ios_shell"
# In the order in which they import each other.
MODULES = {
    "UIKit": ["UIKit.swift", "UIKit+Views.swift"],
    "WebKit": ["Web.swift"],
    "SafariServices": ["SafariServices.swift"],
    "UserNotifications": ["UserNotifications.swift"],
    "os": ["os.swift"],
}
# What main declares otherwise, its patch of the app uses: the library and the app are compiled for it apart.
HOTWIRE_NATIVE = ["Session.swift", "Navigator.swift", "Hotwire.swift"]
LIBRARIES = {"released": [*HOTWIRE_NATIVE, "Released.swift"], "main": [*HOTWIRE_NATIVE, "Main.swift"]}
APP = ["Phone.swift", "Scenes.swift"]
VERSIONS = ["1.2.2", "1.3.0-beta", "main"]
# Seconds for a condition to come. Only what goes wrong takes so long. With all old pieces much does; of a control's the scenes know.
PATIENCE, ALL_OLD_PATIENCE = 60, 15
ONLY = {
    # Main can load all tabs at once, and so do all before 1.3.0-beta.
    "three tabs are refused, and somebody signs in": ["1.2.2", "main"],
    "a push leads to the inbox, whose tab has never been shown": ["1.3.0-beta", "main"],
    "a link leads to the page of a tab that has never been shown": ["1.3.0-beta", "main"],
}


class Server(http.server.ThreadingHTTPServer):
    """Campanile, as far as the app asks it: notes the calls of each scene, whose address begins with its number."""
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.calls, self.numbers = {}, {}

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):  # a scene has ended
            super().handle_error(request, client_address)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        _, scene, *words = self.path.split("?")[0].split("/")
        calls = self.server.calls.setdefault(scene, [])
        status, body = 200, {}
        if words == ["control", "log"]:
            body = calls
        elif words[:2] == ["control", "count"]:
            self.server.numbers[scene] = int(words[2])
        else:
            calls.append(f"{self.command} /{'/'.join(words[:1])} {self.user()}")
            if words[0] == "badge":
                cleared = self.command == "DELETE" or f"DELETE /badge {self.user()}" in calls
                count = self.server.numbers.get(scene, 3)
                body = {"count": 0 if cleared else count, "unread_count": count, "version": count + (1 if cleared else 0)}
            elif words[0] == "deep_links":
                status = 404
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def user(self):
        claims = (self.headers["Authorization"] or "..").split(".")[1]
        return json.loads(base64.b64decode(claims + "=" * (-len(claims) % 4)) or "{}").get("sub", "nobody")

    do_GET = do_POST = do_PATCH = do_DELETE = answer

    def log_message(self, *_):
        pass


@dataclasses.dataclass
class Build:
    swiftc: str
    folder: pathlib.Path

    def modules(self):
        """CampanileClient with its parts for Apple's systems, and the phone."""
        for name, files in MODULES.items():
            self.phone(name, files, self.folder)
        for name in ("CampanileCore", "CampanileClient"):
            self.module(name, swift_files(ROOT / "Sources" / name), self.folder, *PACKAGE)
        for library, files in LIBRARIES.items():
            (self.folder / library).mkdir()
            self.phone("HotwireNative", files, self.folder / library)

    def phone(self, name, files, folder):
        self.module(
            name, [PHONE / file for file in files], folder, "-swift-version", "5", "-enable-upcoming-feature", "InternalImportsByDefault")

    def module(self, name, files, folder, *options):
        run(self.swiftc, "-emit-library", "-static", "-emit-module", "-parse-as-library", "-wmo", "-module-name", name,
            "-I", self.folder, "-o", folder / f"lib{name}.a", *options, *files)

    def app(self, name, library, files):
        """A program of the app's files and the scenes."""
        own, hotwire = self.folder / name, self.folder / library
        own.mkdir()
        for file in (EXAMPLE / "App/Resources").glob("*.json"):
            shutil.copy(file, own)
        run(self.swiftc, "-swift-version", "5", "-parse-as-library", "-wmo", "-module-name", "CampanileExample", "-D", "DEBUG", "-I",
            hotwire, "-I", self.folder, "-L", hotwire, "-L", self.folder, *files, *(PHONE / file for file in APP),
            *(f"-l{module}" for module in ("HotwireNative", "CampanileClient", "CampanileCore", *MODULES)), "-o", own / "app")
        return own / "app"


def run(*command):
    done = subprocess.run([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, check=False)
    if done.returncode:
        errors = [line for line in done.stdout.splitlines() if "error:" in line]
        sys.exit("ios_shell: the compiler says:\n" + "\n".join(errors[:20] or [done.stdout[:4000]]))
    return done.stdout


def sources(folder, old=(), example=EXAMPLE):
    """The app's files. Its entry is the scenes'. With `old`, what the controls put back stands in them too, behind a switch."""
    folder.mkdir()
    files = []
    for file in app_files(example):
        text = file.read_text(encoding="utf-8")
        changed = text.replace("@main\n", "")
        for control in old:
            for piece in control.pieces:
                if piece.file == file.name:
                    if changed.count(piece.now) != 1:
                        sys.exit(f"ios_shell: {control.name}: {file.name} doesn't have, once: {piece.now}")
                    changed = changed.replace(piece.now, piece.switched(control.name))
        if changed != text:
            file = folder / file.name
            file.write_text(changed, encoding="utf-8")
        files.append(file)
    return files


def play(program, server, number, scene, version, patience, old=(), wrong=None):
    """The exit code and what was said. `wrong` is what a control has to find."""
    with tempfile.TemporaryDirectory(prefix="campanile-phone-") as home:
        environment = {
            **os.environ, "HOME": home, "XDG_DATA_HOME": home, "CAMPANILE_URL": f"http://127.0.0.1:{server.server_port}/{number}",
            "WEB_URL": "https://www.example.com", "OLD": ",".join(old),
            **({"WRONG": wrong} if wrong else {})}
        done = subprocess.run(
            [str(program), scene, version, str(patience)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600,
            check=False, env=environment)
    return done.returncode, done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--swiftc", default="swiftc", help="the compiler (default swiftc)")
    parser.add_argument("-k", default="", help="the scenes whose name has this text")
    parser.add_argument("--all-old", action="store_true", help="play every scene with all of the controls' old pieces put back")
    options = parser.parse_args()
    if not shutil.which(options.swiftc):
        parser.error(f"there is no {options.swiftc}")
    server = Server()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(prefix="campanile-shell-") as name:
        folder = pathlib.Path(name)
        build = Build(options.swiftc, folder)
        build.modules()
        app = build.app("app", "released", sources(folder / "now"))
        switched = build.app("switched", "released", sources(folder / "old", CONTROLS))
        patched = build.app("patched", "main", sources(folder / "patch", PATCH_CONTROLS, patched_example("main", folder)))
        scenes = [scene for scene in run_list(app) if options.k in scene]
        plays = [(scene, version) for scene in scenes for version in ONLY.get(scene, VERSIONS)]
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            if options.all_old:
                names = [control.name for control in CONTROLS]
                return show(pool, [
                    (f"{scene} ({version})", switched, server, f"o{number}", scene, version, ALL_OLD_PATIENCE, names)
                    for number, (scene, version) in enumerate(plays)])
            wrong = show(pool, [
                (f"{scene} ({version})", patched if version == "main" else app, server, f"s{number}", scene, version, PATIENCE)
                for number, (scene, version) in enumerate(plays)])
            controls = [*((switched, control) for control in CONTROLS), *((patched, control) for control in PATCH_CONTROLS)]
            return wrong or (0 if options.k else check_controls(pool, controls, server))


def run_list(app):
    done = subprocess.run([str(app), "", "", ""], stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout.splitlines()


def show(pool, plays):
    wrong = 0
    for (title, *_), (code, said) in zip(plays, pool.map(lambda each: play(*each[1:]), plays)):
        wrong += code != 0
        print(f"ios_shell: {title}: {'as it should be' if code == 0 else said.strip() or f'ended with {code}'}")
    return 1 if wrong else 0


def check_controls(pool, controls, server):
    """Each control is played in its program."""
    def of_one(number, app, control):
        return play(app, server, f"c{number}", control.scene, control.version, PATIENCE, [control.name], control.wrong)

    wrong = 0
    results = pool.map(lambda each: of_one(each[0], *each[1]), enumerate(controls))
    for (_, control), (code, said) in zip(controls, results):
        is_found = code == 1 and control.wrong in said
        wrong += not is_found
        print(f"ios_shell: {'found' if is_found else 'NOT FOUND as it should be'}: {control.what}" + ("" if is_found else f"\n{said}"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
