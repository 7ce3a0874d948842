"""/metrics as others read it: by the parser of Prometheus' library for Python, and by Prometheus itself, with every query of the
Grafana dashboard against what a running server says.

The names, types and units are those of docs/watching.md, and no others.
"""
import contextlib
import http.client
import json
import math
import os
import pathlib
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from e2e import ROOT
from e2e.harness import METRICS_TOKEN, HarnessError, children, die_with_parent, free_port, serving, stores, temporary_folder

DASHBOARD = ROOT / "packaging/grafana-dashboard.json"
DOCUMENT = ROOT / "docs/watching.md"
USER, DEVICE = "alice-in-the-metrics", "c0ffee" * 10 + "cafe"
# Whoever puts a user, a token or a path into a label makes the series endless.
LABELS = {"route", "method", "status", "le", "app", "provider", "kind", "outcome", "condition"}
SECONDS = 30
# What only a database file has.
FILES_ALONE = {"campanile_database_wal_size_bytes", "campanile_backup_age_seconds"}


class Watched:
    """A server with a little of everything behind it."""

    def __init__(self, server):
        self.server, self.connection = server, server.connection()
        self.user, self.key = server.user_token(USER), server.producer_key("metrics-producer")
        self.badge_reads = 25
        self.expect(201, "POST", "/device_tokens", self.user, {"token": DEVICE, "platform": "ios"})
        self.notification = self.expect(201, "POST", "/notifications", self.key, {"user_id": USER, "title": "Measured"}).json()["id"]
        for _ in range(self.badge_reads):
            self.expect(200, "GET", "/badge", self.user)
        self.expect(404, "GET", f"/notifications/{self.notification}x", self.user)
        self.expect(404, "GET", f"/{USER}", None)
        self.expect(405, "PURGE", "/badge", self.user)

    def expect(self, status, method, path, credential, body=None):
        answer = self.connection.request(method, path, credential=credential, body=body)
        if answer.status != status:
            raise HarnessError(f"{method} {path} got {answer!r}")
        return answer

    def text(self):
        answer = self.expect(200, "GET", "/metrics", METRICS_TOKEN)
        assert answer.header("Content-Type") == "application/openmetrics-text; version=1.0.0; charset=utf-8"
        return answer.body.decode()

    def families(self):
        return {family.name: family for family in text_string_to_metric_families(self.text())}

    def value(self, sample, **labels):
        """A sample's value; None if it isn't there."""
        for family in self.families().values():
            for one in family.samples:
                if one.name == sample and one.labels == labels:
                    return one.value
        return None

    def wait(self, wanted, sample, **labels):
        """Until a sample has a value: a request counts when it is over, and a push when it is answered."""
        deadline = time.monotonic() + SECONDS
        while (value := self.value(sample, **labels)) != wanted:
            assert time.monotonic() < deadline, f"{sample} {labels} is {value} and not {wanted}"
            time.sleep(0.05)


@pytest.fixture(scope="module")
def watched(binary):
    with temporary_folder("campanile-backups-") as folder:
        settings = {} if stores.is_postgres() else {"CAMPANILE_BACKUP_DIRECTORY": folder}
        with serving(binary, settings) as server:
            watched = Watched(server)
            yield watched
            watched.connection.close()


def documented():
    """Name, type and unit of every metric in the document's table."""
    rows = re.findall(r"^\| `((?:campanile|process)_\w+)` \| (\w+) \|", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    return dict(rows)


def test_the_parser_finds_what_the_document_lists_and_nothing_else(watched):
    families = watched.families()
    found = {name + ("_total" if family.type == "counter" else ""): family.type for name, family in families.items()}
    assert found == documented()
    assert len(found) > 20


def test_names_units_and_labels_follow_the_conventions(watched):
    for name, family in watched.families().items():
        assert re.fullmatch(r"(campanile|process)_[a-z_]+", name)
        assert family.documentation.endswith(".")
        assert not name.endswith("_total")
        unit = next((unit for unit in ("seconds", "bytes") if name.endswith(f"_{unit}")), "")
        assert family.unit == unit, name
        assert not re.search(r"milli|micro|nano|kilo|mega|minutes|hours|percent", name)
        for sample in family.samples:
            assert set(sample.labels) <= LABELS, sample
            assert sample.value >= 0, sample


def test_requests_are_counted_once_each_with_their_time(watched):
    requests = "campanile_http_requests_total"
    watched.wait(watched.badge_reads, requests, route="/badge", method="GET", status="200")
    watched.wait(1, requests, route="/badge", method="_OTHER", status="405")
    watched.wait(1, requests, route="/notifications/{id}", method="GET", status="404")
    watched.wait(1, requests, route="(no route)", method="GET", status="404")
    watched.wait(1, requests, route="/notifications", method="POST", status="201")
    watched.wait(watched.badge_reads, "campanile_http_request_duration_seconds_count", route="/badge", method="GET")
    seconds = watched.value("campanile_http_request_duration_seconds_sum", route="/badge", method="GET")
    assert 0 < seconds < SECONDS


def test_pushes_and_the_writer_are_counted(watched):
    lane = {"app": "default", "provider": "apns"}
    watched.wait(1, "campanile_push_answers_total", **lane, kind="alert", outcome="accepted")
    watched.wait(1, "campanile_lane_condition", **lane, condition="sandbox")
    watched.wait(0, "campanile_deliveries_owed", **lane)
    sizes, commits = watched.families()["campanile_writer_group_size"], watched.families()["campanile_writer_commit_duration_seconds"]
    assert next(sample.value for sample in sizes.samples if sample.name.endswith("_sum")) >= 2
    assert next(sample.value for sample in commits.samples if sample.name.endswith("_count")) >= 2


def test_the_process_and_the_files_are_as_the_system_says(watched):
    process, database = watched.server.process.pid, watched.server.database
    pages = int(pathlib.Path(f"/proc/{process}/statm").read_text().split()[1])
    assert watched.value("process_resident_memory_bytes") == pytest.approx(pages * os.sysconf("SC_PAGESIZE"), rel=0.2)
    # While it answers, its folder of descriptors is open, and not counted.
    deadline = time.monotonic() + SECONDS
    # A backup has files open for a while.
    while abs((told := watched.value("process_open_fds")) - (found := len(os.listdir(f"/proc/{process}/fd")))) > 3:
        assert time.monotonic() < deadline, f"{told} are told, {found} there"
        time.sleep(0.05)
    assert time.time() - 600 < watched.value("process_start_time_seconds") <= time.time()
    if stores.is_postgres():
        size = int(stores.value(database, "SELECT pg_database_size(current_database())"))
        assert watched.value("campanile_database_size_bytes") == pytest.approx(size, rel=0.2)
        assert [watched.value(name) for name in sorted(FILES_ALONE)] == [None, None]
    else:
        assert watched.value("campanile_database_size_bytes") == os.path.getsize(database)
        assert watched.value("campanile_database_wal_size_bytes") == os.path.getsize(f"{database}-wal")


@pytest.mark.skipif(stores.is_postgres(), reason="PostgreSQL's backups are its own")
def test_the_newest_backup_has_an_age(watched):
    deadline = time.monotonic() + SECONDS
    while (age := watched.value("campanile_backup_age_seconds")) == math.inf:
        assert time.monotonic() < deadline, "the server makes its first backup at its start"
        time.sleep(0.05)
    assert 0 <= age < 600


def test_a_stream_is_open_while_it_is(watched):
    watched.wait(0, "campanile_streams_open", kind="events")
    client = http.client.HTTPConnection("127.0.0.1", watched.server.port, timeout=SECONDS)
    client.request("GET", "/badge/stream", headers={"Authorization": f"Bearer {watched.user}"})
    response = client.getresponse()
    assert response.status == 200
    watched.wait(1, "campanile_streams_open", kind="events")
    response.close()
    client.close()
    watched.wait(0, "campanile_streams_open", kind="events")
    assert watched.value("campanile_streams_opened_total", kind="events") == 1


def test_nothing_of_a_user_stands_in_it(watched):
    text = watched.text()
    for secret in (USER, DEVICE, watched.notification, watched.user, watched.key, METRICS_TOKEN):
        assert secret not in text


def test_an_app_may_be_called_anything_that_an_app_may(binary):
    with serving(binary) as server:
        watched = Watched(server)
        key = server.command("keys", "create", "other", "--app", "A.b_c-9")[1]
        user = server.command("token", USER, "--app", "A.b_c-9")[1]
        watched.expect(201, "POST", "/device_tokens", user, {"token": "t" * 30, "platform": "android"})
        watched.expect(201, "POST", "/notifications", key, {"user_id": USER, "title": "Measured"})
        watched.wait(1, "campanile_push_answers_total", app="A.b_c-9", provider="fcm", kind="alert", outcome="accepted")
        watched.connection.close()


# --- the dashboard

def panels(board):
    for panel in board["panels"]:
        yield panel
        yield from panel.get("panels", [])


def queries():
    """Title and expression of every query, with what Grafana puts in for its variables."""
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return [
        (panel["title"], target["expr"].replace("$__rate_interval", "1m").replace("$instance", ".*"))
        for panel in panels(board) for target in panel.get("targets", [])]


def test_the_dashboard_is_whole():
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    shown = list(panels(board))
    assert len({panel["id"] for panel in shown}) == len(shown)
    for panel in shown:
        if panel["type"] != "row":
            assert panel["title"] and panel["description"] and panel["targets"], panel
            assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
    names = {name for _, query in queries() for name in re.findall(r"\b(?:campanile|process)_\w+", query)}
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}
    # The limits of what is shown are in the same picture; how often inboxes were recounted says that drift was looked for.
    assert families == set(documented())


class Prometheus:
    """Debian's Prometheus, which reads the server's metrics every second."""

    def __init__(self, folder, server):
        self.port = free_port()
        self.log = pathlib.Path(folder, "prometheus.log")
        configuration = pathlib.Path(folder, "prometheus.yml")
        configuration.write_text(json.dumps({
            "global": {"scrape_interval": "1s"},
            "scrape_configs": [{
                "job_name": "campanile", "authorization": {"credentials": METRICS_TOKEN},
                "static_configs": [{"targets": [f"127.0.0.1:{server.port}"]}]}]}), encoding="utf-8")
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={configuration}", f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{self.port}"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, preexec_fn=die_with_parent)
        children.append(self.process)

    def query(self, expression):
        data = urllib.parse.urlencode({"query": expression}).encode()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/query", data, timeout=SECONDS) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            return json.load(error)

    def wait(self, expression, title=""):
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            # While it starts, its 503 is no JSON.
            with contextlib.suppress(OSError, json.JSONDecodeError):
                if self.query(expression).get("data", {}).get("result"):
                    return
            time.sleep(0.2)
        pytest.fail(f"{title}{expression} has no result: {self.log.read_text(encoding='utf-8', errors='replace')[-3000:]}")

    def stop(self):
        self.process.terminate()
        self.process.wait(SECONDS)
        children.remove(self.process)


@pytest.fixture(scope="module")
def prometheus(watched):
    with temporary_folder("campanile-prometheus-") as folder:
        prometheus = Prometheus(folder, watched.server)
        try:
            # A rate needs two readings.
            prometheus.wait('up{job="campanile"} == 1 and count_over_time(up[1m]) > 3')
            yield prometheus
        finally:
            prometheus.stop()


@pytest.mark.needs("prometheus")
@pytest.mark.parametrize(("title", "query"), queries())
def test_prometheus_answers_a_query_of_the_dashboard(prometheus, title, query):
    answer = prometheus.query(query)
    assert answer["status"] == "success", answer
    if stores.is_postgres() and any(name in query for name in FILES_ALONE):
        pytest.skip("what only a database file has")
    # After a reading that took too long there is nothing until the next.
    prometheus.wait(query, f"{title}: ")
