"""nginx with the site of packaging/nginx.conf, in a folder of its own."""
import contextlib
import getpass
import pathlib
import shutil
import socket
import subprocess
import time

from e2e import ROOT
from e2e.harness.children import HarnessError, children, die_with_parent, free_port

SITE = ROOT / "packaging" / "nginx.conf"
UPSTREAM = "    server 127.0.0.1:3001;\n"
WAIT_SECONDS = 30


def replaced(text: str, *pairs: tuple[str, str]) -> str:
    """Every pair's first part stands in the text, and its second takes its place."""
    for old, new in pairs:
        if old not in text:
            raise HarnessError(f"the file doesn't hold {old!r} any more: adapt what asks for it")
        text = text.replace(old, new)
    return text


def main_file(folder: str, http: str) -> str:
    """A whole configuration around what stands in `http { }`: everything that nginx writes is in the folder."""
    temporary = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    return (f"daemon off;\nuser {getpass.getuser()};\nworker_processes 1;\npid {folder}/nginx.pid;\nerror_log stderr;\n"
            f"events {{ worker_connections 4096; }}\nhttp {{\n    {temporary}\n{http}\n}}\n")


def command(folder: str, main: str) -> list[str]:
    """Writes the file and gives what starts nginx with it."""
    path = pathlib.Path(folder, "nginx.conf")
    path.write_text(main, encoding="utf-8")
    return [shutil.which("nginx") or "/usr/sbin/nginx", "-p", folder, "-e", "stderr", "-c", str(path)]


class Balancer:
    """packaging/nginx.conf in front of several nodes, which take turns; without TLS, which is tried elsewhere. It waits a second for a connection,
    and then asks the next one. It takes no node out: with `max_fails` a node that failed once is out until a request to it has ended, and a
    stream doesn't end."""

    def __init__(self, folder: str, nodes: list[tuple[str, int]]) -> None:
        self.folder, self.port = str(pathlib.Path(folder, "nginx")), free_port()
        pathlib.Path(self.folder).mkdir()
        # From packaging's file, so that what is tried is what is shown: its streams, its WebSockets, its kept connections.
        servers = "".join(f"    server {host}:{port} max_fails=0;\n" for host, port in nodes)
        lines = replaced(SITE.read_text(encoding="utf-8"), (UPSTREAM, servers), ("listen 443 ssl http2", f"listen 127.0.0.1:{self.port}"),
                         ("proxy_http_version 1.1;", "proxy_http_version 1.1;\n    proxy_connect_timeout 1s;")).splitlines()
        site = "\n".join(line for line in lines if not line.strip().startswith("ssl_"))
        # One process: a worker would outlive a script that is killed.
        main = "master_process off;\n" + main_file(self.folder, "access_log off;\n" + site)
        with open(pathlib.Path(self.folder, "log"), "ab") as log:
            self.process = subprocess.Popen(command(self.folder, main), cwd=self.folder,
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent)
        children.append(self.process)
        self._wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            time.sleep(0.02)
        raise HarnessError(f"nginx did not start:\n{pathlib.Path(self.folder, 'log').read_text(encoding='utf-8')[-2000:]}")

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(WAIT_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
