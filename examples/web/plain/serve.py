"""Serves index.html at every address of http://localhost:3000, so that each tab and each link of examples/ios and examples/android has a page.

Hotwire Native needs Turbo in the page. The first start fetches it with pip: Turbo 7.1.0 as the wheel of turbo-django 0.4.4 carries it,
pinned by the wheel's hash. It is kept in .build/ of this repository, and no later start asks for it again.
Campanile is at port 3001 of the host that the page was asked of (an Android emulator's is 10.0.2.2), or where CAMPANILE_URL says.
"""
import http.server
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
WHEEL = "turbo-django==0.4.4 --hash=sha256:535b55d6922e54c9331171212b38f7294f6bfaaaa5ccdbe634fb6a54be72cace"
KEPT = HERE.parents[2] / ".build" / "turbo-7.1.0.js"
CAMPANILE = "http://localhost:3001"


def out_of_wheel(wheel, member, kept):
    """The path `kept` of a file in a wheel, which pip fetches if the file isn't there. `wheel` is a requirement with its hash."""
    if not kept.exists():
        print(f"serve.py: fetching the wheel of {wheel.split()[0]} with pip, and keeping {kept}", file=sys.stderr)
        kept.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            wanted, fetched = pathlib.Path(folder, "wanted.txt"), pathlib.Path(folder, "fetched")
            wanted.write_text(wheel)
            command = ["download", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes", "--dest", folder, "-r", str(wanted)]
            if subprocess.run([sys.executable, "-m", "pip", *command]).returncode:
                sys.exit(f"serve.py: pip fetched no {wheel.split()[0]}. Without pip in this Python: apt-get install python3-pip, or a virtual environment.")
            [file] = pathlib.Path(folder).glob("*.whl")
            fetched.write_bytes(zipfile.ZipFile(file).read(member))
            fetched.replace(kept)
    return kept


def turbo():
    """The path of Turbo's file."""
    return out_of_wheel(WHEEL, "turbo/static/turbo/js/turbo.min.js", KEPT)


class Handler(http.server.BaseHTTPRequestHandler):
    campanile = os.environ.get("CAMPANILE_URL")
    scripts = {"/native-app.js": lambda: HERE / "native-app.js", "/inbox.js": lambda: HERE / "inbox.js", "/turbo.js": turbo}

    def campanile_address(self):
        host = re.fullmatch(r"([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?", self.headers.get("Host") or "")
        return self.campanile or (f"http://{host[1]}:3001" if host else CAMPANILE)

    def do_GET(self):
        script = self.scripts.get(self.path.partition("?")[0])
        body = script().read_bytes() if script else (HERE / "index.html").read_bytes().replace(CAMPANILE.encode(), self.campanile_address().encode())
        self.send_response(200)
        self.send_header("Content-Type", f"text/{'javascript' if script else 'html'}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    turbo()
    http.server.ThreadingHTTPServer(("127.0.0.1", 3000), Handler).serve_forever()
