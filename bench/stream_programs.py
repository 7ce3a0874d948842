"""What bench/streams.py runs: Campanile with its streams, nginx with nchan, and the subscribers of both."""

import atexit
import contextlib
import json
import os
import resource
import secrets
import subprocess
import time
from pathlib import Path

from bench.load import BROWSER, HERE, BenchError
from bench.processes import Server
from e2e.harness import c_compiler, free_port, user_token

MODULE = Path("/usr/lib/nginx/modules/ngx_nchan_module.so")   # where Debian's libnginx-mod-nchan has it
NEEDED_FILES = 11_000   # descriptors a process: 9,000 connections and what else it has open

# The same for both servers, as a browser behind a login sends it: with the token some 600 bytes.
HEADERS = [
    "Host: 127.0.0.1", f"User-Agent: {BROWSER}", "Accept: text/event-stream", "Accept-Language: de-DE,de;q=0.9,en;q=0.8",
    "Accept-Encoding: gzip, deflate, br", "Cache-Control: no-cache", "Referer: http://127.0.0.1/projects/4711",
    "Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty"]


def raise_files() -> int:
    """As many open files as may be, for this program and all it starts; how many that is."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


def children(process: int) -> list[int]:
    found = []
    for file in Path(f"/proc/{process}/task").glob("*/children"):
        for child in map(int, file.read_text().split()):
            found += [child, *children(child)]
    return found


def listens(port: int) -> bool:
    """Asked of the kernel: a connection to try would be taken for a subscriber."""
    wanted = f":{port:04X}"
    return any(fields[1].endswith(wanted) and fields[3] == "0A"
               for fields in map(str.split, Path("/proc/net/tcp").read_text().splitlines()[1:]))


def stream_request(target: str, token: str | None, more: list[str] | None = None) -> bytes:
    authorization = [f"Authorization: Bearer {token}"] if token else []
    lines = [f"GET {target} HTTP/1.1", *HEADERS, *authorization, *(more or [])]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def socket_request(target: str, token: str | None = None, *more: str) -> bytes:
    return stream_request(target, token, [
        "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", *more])


def cable_request(token: str | None, protocols: str = "actioncable-v1-json, actioncable-unsupported") -> bytes:
    return socket_request("/cable", token, f"Sec-WebSocket-Protocol: {protocols}")


def subscribe_frame(identifier: dict | None = None) -> bytes:
    """Subscribes, to the user's notifications if nothing else is said."""
    return command_frame("subscribe", identifier or {"channel": "NotificationsChannel"})


def command_frame(command: str, identifier: dict, **more) -> bytes:
    """A command in a masked text frame (RFC 6455 section 5.2)."""
    content = json.dumps({"command": command, "identifier": json.dumps(identifier), **more}).encode()
    mask, length = b"\x37\xfa\x21\x3d", len(content)
    size = bytes([0x80 | length]) if length < 126 else b"\xfe" + length.to_bytes(2, "big")
    masked = int.from_bytes(content, "big") ^ int.from_bytes((mask * (length // 4 + 1))[:length], "big")
    return b"\x81" + size + mask + masked.to_bytes(length, "big")


class StreamServer(Server):
    """A server of one process or of several; memory and processor time are the sum of all."""

    def processes(self) -> list[int]:
        return [self.process.pid, *children(self.process.pid)]

    def cpu_seconds(self) -> float:
        ticks = 0
        for number in self.processes():
            fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def memory(self) -> tuple[int, int]:
        """Bytes: proportional set size, in which a page shared by several processes counts once, and resident set size."""
        sums = {"Pss:": 0, "Rss:": 0}
        for number in self.processes():
            for line in Path(f"/proc/{number}/smaps_rollup").read_text().splitlines():
                name, *rest = line.split()
                if name in sums:
                    sums[name] += int(rest[0]) * 1024
        return sums["Pss:"], sums["Rss:"]

    def settled_memory(self) -> tuple[int, int]:
        """Memory once it has stopped to change."""
        self.wait_until_quiet()
        last = self.memory()
        for _ in range(20):
            time.sleep(0.5)
            now = self.memory()
            if abs(now[0] - last[0]) < 64 * 1024:
                return now
            last = now
        return last


class Nchan(StreamServer):
    """nginx with nchan, configured so that it does as little as it can: no log, no authentication, the header buffers
    at their default of 1 KiB (larger heads get one of four buffers of 8 KiB for the time of the request, and that time is
    as long as the stream), messages in memory, a heartbeat as often as Campanile's."""

    def __init__(self, folder: Path, workers: int, log: Path | None):
        port = free_port()
        place = folder / f"nginx-{port}"
        place.mkdir()
        configuration = place / "nginx.conf"
        configuration.write_text(self._configuration(place, port, workers))
        atexit.register(self._end)
        super().__init__("nchan", ["nginx", "-p", str(place), "-e", "stderr", "-c", str(configuration)], port,
                         {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}, folder, None, log)

    def _end(self) -> None:
        """The workers outlive a master that is killed, so it is asked to leave before that happens."""
        if getattr(self, "process", None):
            self.stop()

    @staticmethod
    def _configuration(place: Path, port: int, workers: int) -> str:
        if not MODULE.exists():
            raise BenchError("nchan isn't there: apt-get install nginx libnginx-mod-nchan")
        user = "user root;" if os.geteuid() == 0 else ""   # so that the workers may enter the folder
        temporary = "\n".join(f"  {kind}_temp_path {place}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        return f"""load_module {MODULE};
{user}
daemon off;
worker_processes {workers};
worker_rlimit_nofile {NEEDED_FILES};
pid {place}/pid;
error_log stderr error;
events {{ worker_connections {NEEDED_FILES - 500}; use epoll; }}
http {{
{temporary}
  access_log off;
  server_tokens off;
  large_client_header_buffers 4 8k;
  keepalive_requests 1000000;
  nchan_shared_memory_size 256M;
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location = /healthz {{ return 200; }}
    location = /sub {{
      nchan_subscriber eventsource;
      nchan_channel_id $arg_user;
      nchan_subscriber_first_message newest;
      nchan_eventsource_ping_interval 20;
    }}
    location = /sub-socket {{
      nchan_subscriber websocket;
      nchan_channel_id $arg_user;
      nchan_subscriber_first_message newest;
    }}
    location = /pub {{
      nchan_publisher http;
      nchan_channel_id $arg_user;
      nchan_message_timeout 60s;
    }}
  }}
}}
"""

    def stream_request(self, user: str, token: str, more: list[str] | None = None) -> bytes:
        return stream_request(f"/sub?user={user}", token, more)

    def change_request(self, user: str, count: int) -> bytes:
        """Publishes what Campanile sends to its subscribers, to the byte but for the id."""
        content = json.dumps({"count": count, "unread_count": count, "version": int(time.time() * 1000)},
                             separators=(",", ":")).encode()
        head = [f"POST /pub?user={user} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json",
                "X-EventSource-Event: badge", f"Content-Length: {len(content)}"]
        return "\r\n".join(head).encode() + b"\r\n\r\n" + content

    initial_events = 0


class Campanile(StreamServer):
    """`campanile serve` as it is, with limits above what is measured."""

    initial_events = 1   # the present badge

    def __init__(self, programs: "StreamPrograms", database: Path, log: Path | None):
        port = free_port()
        command = [str(programs.binary), "serve", "--host", "127.0.0.1", "--port", str(port), "--database", str(database)]
        super().__init__("campanile", command, port, programs.environment, programs.folder, None, log)
        self.database = database
        self.key = programs.command("keys", "create", f"bench-{secrets.token_hex(4)}", "--database", str(database))

    def stream_request(self, user: str, token: str, more: list[str] | None = None) -> bytes:
        return stream_request("/badge/stream", token, more)

    def change_request(self, user: str, count: int) -> bytes:
        content = json.dumps({"user_id": user, "title": "Sendung unterwegs", "body": f"Nummer {count}"}).encode()
        head = ["POST /notifications HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json",
                f"Authorization: Bearer {self.key}", f"Content-Length: {len(content)}"]
        return "\r\n".join(head).encode() + b"\r\n\r\n" + content


class Subscribers:
    """The program of subscribers.c with its connections open; `with` ends it."""

    def __init__(self, programs: "StreamPrograms", port: int, count: int, requests: list[bytes], *more: str):
        self.programs, self.count = programs, count
        self.file = programs.folder / f"subscribers-{secrets.token_hex(4)}.requests"
        self.file.write_bytes(b"".join(one + b"\0" for one in requests))
        self.process = subprocess.Popen([str(programs.subscribers), str(port), str(count), str(self.file), *more],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        atexit.register(self.process.kill)
        self.opened = self._answer()
        if self.opened["ready"] != count:
            raise BenchError(f"of {count} subscribers only {self.opened['ready']} are connected, {self.opened['closed']} "
                             "were closed by the server")

    def _answer(self) -> dict:
        line = self.process.stdout.readline()
        if not line:
            raise BenchError(f"the subscribers ended with {self.process.wait()}; see above")
        return json.loads(line)

    def ask(self, line: str) -> dict:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self._answer()

    def state(self) -> dict:
        found = self.ask("state")
        if found["closed"] or found["ready"] != self.count:
            raise BenchError(f"subscribers were closed by the server: {found}")
        return found

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self) -> "Subscribers":
        return self

    def __exit__(self, *_) -> None:
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        atexit.unregister(self.process.kill)
        self.file.unlink(missing_ok=True)


class StreamPrograms:
    """How the programs are built and started."""

    def __init__(self, binary: Path | None, folder: Path, log: Path | None):
        self.binary, self.folder, self.log = binary, folder, log
        self.secret, self.stream_key = secrets.token_hex(32), secrets.token_hex(32)
        keep = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH") if name in os.environ}
        self.environment = {**keep, "CAMPANILE_JWT_SECRET": self.secret, "CAMPANILE_STREAMS_PER_USER": "20000",
                            "CAMPANILE_STREAMS_TOTAL": "20000", "CAMPANILE_CABLE_SIGNED_STREAM_KEY": self.stream_key}
        self.subscribers = self._build()
        self._tokens: dict[str, str] = {}

    def _build(self) -> Path:
        binary = self.folder / "subscribers"
        done = subprocess.run([c_compiler(), "-O2", "-std=gnu11", "-o", str(binary), str(HERE / "subscribers.c")],
                              capture_output=True, text=True)
        if done.returncode:
            raise BenchError(f"subscribers.c doesn't compile:\n{done.stderr}")
        return binary

    def token(self, user: str) -> str:
        if user not in self._tokens:
            self._tokens[user] = user_token(self.secret, user)
        return self._tokens[user]

    def campanile(self) -> Campanile:
        return Campanile(self, self.folder / f"streams-{secrets.token_hex(4)}.sqlite", self.log)

    def nchan(self, workers: int) -> Nchan:
        return Nchan(self.folder, workers, self.log)

    def listening(self, server: Campanile | Nchan, users: list[str], count: int, more: list[str] | None = None) -> Subscribers:
        """`count` streams that are spread over the users, each ready."""
        requests = [server.stream_request(user, self.token(user), more) for user in users]
        return Subscribers(self, server.port, count, requests, "--initial", str(server.initial_events))

    @contextlib.contextmanager
    def bare_sender(self, count: int, size: int):
        """The port of a C loop that sends events of `size` bytes to `count` subscribers at a POST."""
        port = free_port()
        process = subprocess.Popen([str(self.subscribers), "--blast", str(port), str(count), str(size)])
        try:
            deadline = time.monotonic() + 5
            while not listens(port) and time.monotonic() < deadline:
                time.sleep(0.01)
            yield port
        finally:
            process.kill()
            process.wait()

    def nchan_version(self) -> str:
        server = subprocess.run(["nginx", "-v"], capture_output=True, text=True).stderr.strip().rpartition("/")[2]
        module = subprocess.run(["dpkg-query", "-W", "-f=${Version}", "libnginx-mod-nchan"], capture_output=True, text=True)
        return f"nchan {module.stdout.strip() or '(version unknown)'} in nginx {server}"

    def command(self, *arguments: str) -> str:
        done = subprocess.run([str(self.binary), *arguments], cwd=self.folder, env=self.environment, capture_output=True,
                              text=True, timeout=300)
        if done.returncode:
            raise BenchError(f"campanile {' '.join(arguments)} → {done.returncode}: {done.stderr.strip()}")
        return done.stdout.strip()
