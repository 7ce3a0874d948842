"""nginx and Caddy in front of the server, each from Debian's package with the file of packaging/: only names, ports and
certificates are others than in the file.

REST, streams that aren't held up, WebSockets, the client's address in the server's log, the number under the app's own host;
and requests that two parsers may read differently (smuggling.py): the server may take nothing for a request that the proxy
didn't, and every bystander gets the answer to what it asked. The same detector must find the hidden requests where no proxy stands in between.
"""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import select
import socket
import ssl
import subprocess
import time

import pytest

from e2e import ROOT
from e2e.contract import smuggling
from e2e.contract.stock_world import WAIT_SECONDS, Cable, Curl, carries
from e2e.harness import HarnessError, die_with_parent, free_port, nginx, serving
from e2e.harness.nginx import replaced

NAME = "notifications.example.com"

pytestmark = pytest.mark.needs("nginx", "caddy", "curl", "openssl")


class Proxy:
    """A proxy in front of the server, listening for TLS on 127.0.0.1."""

    def __init__(self, folder, server):
        self.folder = pathlib.Path(folder, self.name)
        self.folder.mkdir()
        self.server, self.port = server, free_port()
        self.address = f"https://localhost:{self.port}"
        self.cable = f"wss://localhost:{self.port}/cable"
        self.key = server.producer_key(f"proxies-{self.name}")
        self.authority = pathlib.Path(folder, "localhost.pem")
        self.private_key = pathlib.Path(folder, "localhost.key")
        self.log = self.folder / "log"
        arguments, environment = self.configure()
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                arguments, cwd=self.folder, env={"PATH": os.environ["PATH"], "HOME": str(self.folder), **environment},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent)
        self.wait()

    def wait(self):
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            time.sleep(0.05)
        raise HarnessError(f"{self.name} doesn't listen:\n{self.log.read_text(errors='replace')[-3000:]}")

    def context(self, *protocols):
        context = ssl.create_default_context(cafile=str(self.authority))
        context.set_alpn_protocols(list(protocols) or ["http/1.1"])
        return context

    def token(self, user):
        return self.server.user_token(user)

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    # --- calls

    def call(self, method, path, *, credential=None, body=None, headers=(), version="--http1.1", port=None, client=None):
        """(status, header fields, body) by curl."""
        arguments = ["curl", "--silent", "--show-error", "--globoff", "--path-as-is", version, "--cacert", str(self.authority),
                     "--max-time", str(WAIT_SECONDS), "--include", "--write-out", "\n%{http_version}", "--request", method]
        if method == "HEAD":
            arguments += ["--head"]
        if client:
            arguments += ["--interface", client]
        if credential:
            arguments += ["--header", f"Authorization: Bearer {credential}"]
        if body is not None:
            arguments += ["--header", "Content-Type: application/json", "--header", "Expect:", "--data-binary", "@-"]
        for field in headers:
            arguments += ["--header", field]
        done = subprocess.run([*arguments, f"https://localhost:{port or self.port}{path}"], capture_output=True, text=True,
                              input=body if body is None or isinstance(body, str) else json.dumps(body))
        assert done.returncode == 0, f"{method} {path}: {done.stderr}"
        answer, _, used = done.stdout.rpartition("\n")
        assert used == {"--http1.1": "1.1", "--http2": "2"}[version], f"HTTP/{used} was spoken"
        head, _, content = answer.replace("\r\n", "\n").partition("\n\n")
        first, *lines = head.split("\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        return int(first.split()[1]), fields, content

    def create(self, user, title, **more):
        status, fields, content = self.call(
            "POST", "/notifications", credential=self.key, body={"user_id": user, "title": title, "body": "World"}, **more)
        assert status == 201 and json.loads(content)["title"] == title, (status, content)
        return json.loads(content)["id"], fields

    def logged(self):
        """The lines of all requests in the server's log."""
        with open(self.server.log, encoding="utf-8", errors="replace") as log:
            return [json.loads(line) for line in log if '"message":"request"' in line and line.endswith("}\n")]

    def logged_ids(self):
        return [line["request_id"] for line in self.logged()]

    @contextlib.contextmanager
    def trusting(self, proxies):
        """The server is started anew with these trusted_proxies, and after that as it was."""
        before = self.server.environment["CAMPANILE_TRUSTED_PROXIES"]
        self.restart_server(proxies)
        try:
            yield
        finally:
            self.restart_server(before)

    def restart_server(self, proxies):
        self.server.stop()
        self.server.environment["CAMPANILE_TRUSTED_PROXIES"] = proxies
        self.server.start()
        until(lambda: self.call("GET", "/healthz")[0] == 200, "the proxy doesn't find the server again")


class Nginx(Proxy):
    name = "nginx"

    def configure(self):
        certificates = [(f"/etc/ssl/{NAME}.pem", str(self.authority)), (f"/etc/ssl/{NAME}.key", str(self.private_key))]
        upstream = ("127.0.0.1:3001", f"127.0.0.1:{self.server.port}")
        site = replaced((ROOT / "packaging/nginx.conf").read_text(), *certificates, upstream,
                        ("listen 443", f"listen 127.0.0.1:{self.port}"), (f"server_name {NAME}", "server_name localhost"))
        snippet = replaced((ROOT / "packaging/nginx-app-host.conf").read_text(), upstream)
        self.app_port, self.access_log = free_port(), self.folder / "access.log"
        http = f"""
    access_log {self.access_log};
    # The server says it, too, for other files. Here the files of packaging/ must.
    proxy_ignore_headers X-Accel-Buffering;
    {site}
    server {{
        listen 127.0.0.1:{self.app_port} ssl http2;
        server_name localhost;
        ssl_certificate {self.authority};
        ssl_certificate_key {self.private_key};
        {snippet}
        location / {{ return 200 "the app"; }}
    }}
"""
        return nginx.command(str(self.folder), nginx.main_file(str(self.folder), http)), {}


class Caddy(Proxy):
    name = "caddy"

    def configure(self):
        site = replaced(
            (ROOT / "packaging/Caddyfile").read_text(), ("127.0.0.1:3001", f"127.0.0.1:{self.server.port}"),
            (f"{NAME} {{", f"https://localhost:{self.port} {{\n\ttls {self.authority} {self.private_key}"))
        options = "{\n\tadmin off\n\tauto_https disable_redirects\n\tskip_install_trust\n\tdefault_bind 127.0.0.1\n}\n"
        path = self.folder / "Caddyfile"
        path.write_text(options + site)
        home = {"XDG_DATA_HOME": str(self.folder), "XDG_CONFIG_HOME": str(self.folder)}
        return ["caddy", "run", "--config", str(path), "--adapter", "caddyfile"], home


def make_certificate(folder):
    done = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", f"{folder}/localhost.key",
         "-out", f"{folder}/localhost.pem"], capture_output=True, text=True)
    if done.returncode:
        raise HarnessError(f"openssl made no certificate: {done.stderr}")


@pytest.fixture(scope="module")
def server(binary):
    with serving(binary, {"CAMPANILE_TRUSTED_PROXIES": "127.0.0.1"}) as server:
        make_certificate(server.folder)
        yield server


@pytest.fixture(scope="module", params=[Nginx, Caddy], ids=lambda kind: kind.name)
def proxy(request, server):
    proxy = request.param(server.folder, server)
    yield proxy
    proxy.stop()


only_nginx = pytest.mark.parametrize("proxy", [Nginx], indirect=True, ids=["nginx"])


# --- what a client sees

def test_every_method_and_status_goes_through(proxy):
    """Over HTTP/1.1 and HTTP/2: created, listed, not modified, changed, deleted, refused."""
    for version in ("--http1.1", "--http2"):
        user = f"{proxy.name}-rest-{version[-1]}"
        token = proxy.token(user)
        identifier, fields = proxy.create(user, "Grüße", version=version)
        assert fields["location"] == f"/notifications/{identifier}", fields
        status, _, content = proxy.call("GET", "/notifications?limit=1", credential=token, version=version)
        assert status == 200 and [one["id"] for one in json.loads(content)["notifications"]] == [identifier], content
        status, fields, _ = proxy.call("GET", "/badge", credential=token, version=version)
        assert status == 200
        status, _, content = proxy.call(
            "GET", "/badge", credential=token, headers=[f"If-None-Match: {fields['etag']}"], version=version)
        assert (status, content) == (304, ""), (status, content)
        status, fields, content = proxy.call("HEAD", "/badge", credential=token, version=version)
        assert status == 200 and content == "" and int(fields["content-length"]) > 0, fields
        status, _, content = proxy.call(
            "PATCH", f"/notifications/{identifier}", credential=token, body={"read": True}, version=version)
        assert status == 200 and json.loads(content)["read_at"], content
        assert proxy.call("DELETE", f"/notifications/{identifier}", credential=token, version=version)[0] == 204
        status, fields, content = proxy.call("GET", "/notifications", version=version)
        assert status == 401 and fields["content-type"] == "application/problem+json" and fields["www-authenticate"], fields


def test_a_path_arrives_as_it_was_sent(proxy):
    """A device token with %2F in it is one segment."""
    token = proxy.token("paths")
    status, _, content = proxy.call(
        "POST", "/device_tokens", credential=token, body={"token": "a/b:c%d", "platform": "android"})
    assert status == 201, content
    assert proxy.call("DELETE", "/device_tokens/a%2Fb:c%25d", credential=token)[0] == 204
    assert proxy.call("GET", "/./badge", credential=token)[0] == 404


def test_a_body_at_the_limit_arrives_and_one_above_it_is_refused(proxy):
    status, _, content = proxy.call("POST", "/notifications", credential=proxy.key, body=" " * (256 * 1024 - 2) + "{}")
    assert status == 422, (status, content)
    # Again and again: a proxy that meets a reset may answer 502, and doesn't each time.
    for size in (256 * 1024 + 1, 600_000, 1_500_000):
        for headers in ([], ["Transfer-Encoding: chunked"]):
            for _ in range(5):
                status, _, _ = proxy.call("POST", "/notifications", credential=proxy.key, body=" " * size, headers=headers)
                assert status == 413, (status, size, headers)


def test_both_logs_know_a_request_by_the_same_name(proxy):
    """The proxy's, not the client's."""
    _, fields = proxy.create("names", "Hello", headers=["X-Request-Id: the-clients-own"])
    assert fields["x-request-id"] not in ("", "the-clients-own"), fields
    until(lambda: fields["x-request-id"] in proxy.logged_ids(), "the server's log doesn't have the proxy's name")
    assert "the-clients-own" not in proxy.logged_ids()


# --- what the server believes: curl comes from 127.0.0.2, the proxy and the harness from 127.0.0.1, which the server trusts

CLIENT = "127.0.0.2"
FORGED = ["X-Forwarded-For: 203.0.113.7", "X-Forwarded-For: 127.0.0.1, 198.51.100.1", "X-Real-IP: 203.0.113.8",
          "Forwarded: for=203.0.113.9;proto=http", "True-Client-IP: 203.0.113.10"]


def test_the_servers_log_has_the_clients_address(proxy):
    """Over HTTP/1.1 and HTTP/2, and whatever the client says of itself."""
    for version in ("--http1.1", "--http2"):
        for forged in ([], FORGED):
            _, fields, _ = proxy.call("GET", "/healthz", headers=forged, version=version, client=CLIENT)
            assert address(proxy, fields) == CLIENT, (address(proxy, fields), version, forged)


@only_nginx
def test_the_app_hosts_proxy_hands_the_clients_address_on(proxy):
    """Of nginx-app-host.conf."""
    for forged in ([], FORGED):
        _, fields, _ = proxy.call("POST", "/stream_tokens", credential=proxy.token("address"), headers=forged,
                                  client=CLIENT, port=proxy.app_port)
        assert address(proxy, fields) == CLIENT, (address(proxy, fields), forged)


def test_what_a_client_says_of_itself_goes_no_further(proxy):
    """A server that trusts all addresses here would believe it."""
    with proxy.trusting("127.0.0.0/8"):
        for port in (proxy.port, *([proxy.app_port] if isinstance(proxy, Nginx) else [])):
            _, fields, _ = proxy.call("POST", "/stream_tokens", credential=proxy.token("further"), headers=FORGED, client=CLIENT, port=port)
            assert address(proxy, fields) == CLIENT, (address(proxy, fields), port)


def test_each_location_tells_the_same(proxy):
    """What arrives where the server listens, for every location of the files; and that nothing but a WebSocket is upgraded."""
    places = [(proxy.port, "/badge"), (proxy.port, "/badge/stream"), (proxy.port, "/cable")]
    if isinstance(proxy, Nginx):
        places += [(proxy.app_port, "/badge/stream"), (proxy.app_port, "/stream_tokens")]
    asked = [*FORGED, "X-Forwarded-Proto: http", "X-Request-Id: the-clients-own", "Connection: Upgrade, HTTP2-Settings",
             "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"]
    proxy.server.stop()
    try:
        for port, path in places:
            version, fields = arrived(proxy, port, path, asked)
            told = [fields.get(name) for name in ("x-forwarded-for", "x-forwarded-proto")]
            assert told == [[CLIENT], ["https"]] and version == "HTTP/1.1", (port, path, version, fields)
            assert fields["host"][0].split(":")[0] == "localhost" and len(fields["host"]) == 1, (port, path, fields)
            assert fields.get("x-request-id") not in (None, ["the-clients-own"]), (port, path, fields)
            # Caddy hands every upgrade on; the server knows one.
            assert isinstance(proxy, Caddy) or not {"upgrade", "connection"} & set(fields), (port, path, fields)
    finally:
        proxy.server.start()
    until(lambda: proxy.call("GET", "/healthz")[0] == 200, "the proxy doesn't find the server again")


def arrived(proxy, port, path, headers):
    """The version and the fields of a request, each with its values, as a server would have them."""
    with socket.create_server(("127.0.0.1", proxy.server.port)) as listening, concurrent.futures.ThreadPoolExecutor() as pool:
        listening.settimeout(WAIT_SECONDS)
        waiting = pool.submit(proxy.call, "GET", path, headers=headers, client=CLIENT, port=port)
        connection, _ = listening.accept()
        with connection, connection.makefile("rb") as lines:
            connection.settimeout(WAIT_SECONDS)
            version, fields = lines.readline().split()[-1].decode(), {}
            while line := lines.readline().strip().decode():
                name, _, value = line.partition(":")
                fields.setdefault(name.lower(), []).append(value.strip())
            connection.sendall(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        assert waiting.result()[0] == 204, waiting.result()
    return version, fields


def test_a_server_that_trusts_nobody_logs_the_proxy(proxy):
    """The control: with the default no forwarded field counts."""
    with proxy.trusting(""):
        _, fields, _ = proxy.call("GET", "/healthz", headers=FORGED, client=CLIENT)
        assert address(proxy, fields) == "127.0.0.1", address(proxy, fields)


def test_the_scheme_is_the_proxys_word(proxy):
    """A page of http:// isn't the server's own behind TLS, whatever the client calls the scheme. Told nothing, it is either."""
    for origin, forged, status in (
            ("https://localhost", None, 101), ("https://localhost", "http", 101),
            ("http://localhost", None, 403), ("http://localhost", "http", 403), ("https://evil.example", "https", 403)):
        assert upgrade(proxy, origin, forged) == status, (origin, forged)
    with proxy.trusting(""):
        for origin, status in (("https://localhost", 101), ("http://localhost", 101), ("https://evil.example", 403)):
            assert upgrade(proxy, origin, "ftp") == status, origin


def upgrade(proxy, origin, forged):
    """The status of a WebSocket's opening. The host has no port, as it would have none at 443."""
    head = ("GET /cable HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            f"Origin: {origin}\r\nAuthorization: Bearer {proxy.token('scheme')}\r\n")
    if forged:
        head += f"X-Forwarded-Proto: {forged}\r\n"
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=WAIT_SECONDS) as plain:
        with proxy.context().wrap_socket(plain, server_hostname="localhost") as connection:
            connection.sendall(f"{head}\r\n".encode())
            return int(connection.recv(4096).split(b" ")[1])


def address(proxy, fields):
    """The client's address in the server's log, of the request with this answer."""
    lines = []

    def is_logged():
        lines[:] = [line for line in proxy.logged() if line["request_id"] == fields["x-request-id"]]
        return lines
    until(is_logged, "the server's log doesn't have the request")
    return lines[0]["client_address"]


def test_a_stream_is_handed_on_as_it_comes(proxy):
    """The first event, and each one after it, while the stream stays open; over HTTP/1.1 and HTTP/2."""
    for version in ("--http1.1", "--http2"):
        user = f"{proxy.name}-stream-{version[-1]}"
        with stream(proxy, user, version, proxy.port) as events:
            identifier, present = events.until("badge")
            assert present["count"] == 0, present
            for number in (1, 2, 3):
                proxy.create(user, f"Number {number}")
                assert events.until("badge")[1]["count"] == number


def stream(proxy, user, version, port, path="/badge/stream"):
    return Curl(version, "--cacert", str(proxy.authority), "--header", f"Authorization: Bearer {proxy.token(user)}",
                f"https://localhost:{port}{path}")


def test_the_address_of_a_stream_is_not_logged(proxy):
    """It may hold a token."""
    path = f"/badge/stream?access_token={proxy.token('logged')}"
    assert proxy.call("HEAD", path)[0] == 200
    logs = [proxy.log]
    if isinstance(proxy, Nginx):
        assert proxy.call("HEAD", path, port=proxy.app_port)[0] == 200
        assert proxy.call("GET", "/healthz?logged")[0] == 200
        logs.append(proxy.access_log)
        until(lambda: "/healthz?logged" in proxy.access_log.read_text(), "nginx logs nothing at all")
    for log in logs:
        assert "access_token" not in log.read_text(errors="replace"), log


def test_a_websocket_is_upgraded_and_hears_events(proxy):
    with Cable(proxy, "cable", ssl=proxy.context()) as cable:
        cable.until(lambda message: message.get("type") == "welcome")
        identifier = json.dumps({"channel": "NotificationsChannel"})
        cable.send(command="subscribe", identifier=identifier)
        cable.until(lambda message: message.get("type") == "confirm_subscription")
        proxy.create("cable", "Hello")
        cable.until(carries("notification.created"))
        cable.until(lambda message: message.get("type") == "ping")


@only_nginx
def test_the_number_stands_under_the_apps_own_host(proxy):
    """The two locations of nginx-app-host.conf; everything else stays the app's."""
    with stream(proxy, "own-host", "--http2", proxy.app_port) as events:
        assert events.until("badge")[1]["count"] == 0
        proxy.create("own-host", "Hello")
        assert events.until("badge")[1]["count"] == 1
    status, _, content = proxy.call("POST", "/stream_tokens", credential=proxy.token("own-host"), port=proxy.app_port)
    assert status in (200, 201) and json.loads(content)["token"], (status, content)
    for path in ("/notifications", "/badge", "/badge/stream/", "/console"):
        assert proxy.call("GET", path, port=proxy.app_port)[2] == "the app", path


def test_a_restart_of_the_server_needs_none_of_the_proxy(proxy):
    """Its kept connections are gone, and the next request is served all the same."""
    for number in range(4):
        proxy.create("restart", f"Before {number}")
    proxy.server.stop()
    status = proxy.call("GET", "/healthz")[0]
    assert status == 502, status
    proxy.server.start()
    until(lambda: proxy.call("GET", "/healthz")[0] == 200, "the proxy doesn't find the server again")
    proxy.create("restart", "After")


def test_who_comes_during_a_restart_waits_in_a_socket_that_is_handed_down(proxy):
    """No 502: the proxy reaches the socket though no server is there, and the next server answers."""
    server = proxy.server
    server.stop()
    with socket.create_server(("127.0.0.1", server.port)) as server.listener, concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(proxy.call, "GET", "/healthz")
        assert select.select([server.listener], [], [], WAIT_SECONDS)[0], "the proxy doesn't come to the socket"
        server.start()
        assert waiting.result()[0] == 200, waiting.result()
        server.stop()
    server.listener = None
    server.start()


# --- requests that two parsers may read differently

def test_nothing_is_smuggled_past_it(proxy, capsys):
    address = ("127.0.0.1", proxy.port)
    names = {}
    answered = 0
    for name, make in smuggling.http1(proxy.key):
        identifier = f"hidden-{proxy.name}-1-{len(names)}"
        names[identifier] = name
        answered += bool(smuggling.send_http1(address, proxy.context(), make(identifier)))
        bystanders(proxy, name)
    for name, make in smuggling.http2(proxy.key):
        identifier = f"hidden-{proxy.name}-2-{len(names)}"
        names[identifier] = f"HTTP/2 {name}"
        header, body = make(smuggling.hidden(identifier))
        answered += bool(smuggling.send_http2(address, proxy.context("h2"), header, body))
        bystanders(proxy, names[identifier])
    # What comes through below this line came from nobody else.
    until(lambda: sum(one.startswith("last-") for one in mark(proxy)) > 0, "the server's log has stopped")
    seen = [names[identifier] for identifier in proxy.logged_ids() if identifier in names]
    with capsys.disabled():
        print(f"{len(names)} vectors, {answered} answered, {len(seen)} desyncs", end=" ")
    assert len(names) > 150 and answered > 100, "hardly anything was sent"
    assert not seen, f"the server took these for requests and {proxy.name} didn't: {seen}"


def bystanders(proxy, name):
    """Two who come next on the same connection to the server, and must get their own answers."""
    for number in (1, 2):
        try:
            proxy.create("bystander", f"{name[:100]} {number}")
        except AssertionError as error:
            raise AssertionError(f"after {name}: a bystander got something else: {error}") from None


def mark(proxy):
    connection = proxy.server.connection()
    connection.request("GET", "/healthz", headers={"X-Request-Id": f"last-{proxy.name}"})
    connection.close()
    return proxy.logged_ids()


def test_without_a_proxy_the_hidden_requests_are_found(proxy):
    """The control: a front that hands bytes on unread."""
    identifier = f"hidden-control-{proxy.name}"
    request = f"GET /badge HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {proxy.token('control')}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", proxy.server.port), timeout=WAIT_SECONDS) as connection:
        connection.sendall(request + smuggling.hidden(identifier))
        until(lambda: identifier in proxy.logged_ids(), "the detector finds nothing")


def until(holds, complaint):
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < deadline, complaint
        time.sleep(0.1)
