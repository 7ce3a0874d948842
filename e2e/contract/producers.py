"""Runs the producers of docs/sending.md, in Python, Ruby, Node and, where it is installed, Go, against a real server behind a
front that refuses, keeps silent and loses answers on command.

A producer runs as the document shows it, in a program of its own; what it would sleep is noted instead of slept, and one
test shortens the time that it waits for an answer.
"""
import http.client
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading

import pytest

from e2e import ROOT
from e2e.contract.document_blocks import blocks
from e2e.harness import free_port, serving

DOCUMENT = "docs/sending.md"
RUN_SECONDS = 120
ATTEMPTS = 6
RETRY_AFTER = 7
PROBLEM = json.dumps({"type": "urn:campanile:problem:unavailable", "title": "Try again", "status": 503, "code": "unavailable"})
# What follows the document's code in a program: it makes the call of its argument and prints how that ended.
ENDINGS = {
    "python": """
import sys
sleeps, asked = [], json.loads(sys.argv[1])
time.sleep = sleeps.append
try:
    ended = {"answer": globals()[asked["call"]](*asked["arguments"])}
except Refused as error:
    ended = {"refused": str(error)}
except Exception as error:
    ended = {"failed": repr(error)}
print(json.dumps({**ended, "sleeps": sleeps}))
""",
    "ruby": """
$sleeps, asked = [], JSON.parse(ARGV[0], symbolize_names: true)
# Only the document's own: what Ruby's libraries sleep, such as a time limit's thread, is none of its waits.
def sleep(seconds) = caller_locations(1, 1).first.path == "-e" ? $sleeps << seconds : Kernel.sleep(seconds)
ended = begin
  { answer: send(asked[:call], *asked[:arguments]) }
rescue Refused => error
  { refused: error.message, problem: error.problem }
rescue StandardError => error
  { failed: error.inspect }
end
puts JSON.generate({ **ended, sleeps: $sleeps })
""",
    "js": """
const [sleeps, asked, wait] = [[], JSON.parse(process.argv.at(-1)), setTimeout];
// Only the document's own: what Node's parts sleep, such as a connection's time limit, is none of its waits.
globalThis.setTimeout = (call, milliseconds, ...rest) => {
  if (!new Error().stack.split("\\n")[2].includes("[eval")) return wait(call, milliseconds, ...rest);
  sleeps.push(milliseconds / 1000);
  return wait(call, 0);
};
let ended;
try {
  ended = { answer: await { notify, notify_all: notifyAll }[asked.call](...asked.arguments) ?? null };
} catch (error) {
  ended = error instanceof Refused ? { refused: error.message } : { failed: String(error) };
}
console.log(JSON.stringify({ ...ended, sleeps }));
""",
    "go": """
var sleeps = []float64{}

func noted(wait time.Duration) { sleeps = append(sleeps, wait.Seconds()) }

func main() {
	var asked struct {
		Call      string
		Arguments []json.RawMessage
	}
	var users []string
	var notification map[string]any
	var key string
	json.Unmarshal([]byte(os.Args[1]), &asked)
	if asked.Call == "notify_all" {
		json.Unmarshal(asked.Arguments[0], &users)
		asked.Arguments = asked.Arguments[1:]
	}
	json.Unmarshal(asked.Arguments[0], &notification)
	json.Unmarshal(asked.Arguments[1], &key)
	var answer map[string]any
	var err error
	if users == nil {
		answer, err = Notify(notification, key)
	} else {
		err = NotifyAll(users, notification, key)
	}
	ended := map[string]any{"sleeps": sleeps}
	switch refused := (Refused{}); {
	case err == nil:
		ended["answer"] = answer
	case errors.As(err, &refused):
		ended["refused"] = err.Error()
	default:
		ended["failed"] = err.Error()
	}
	printed, _ := json.Marshal(ended)
	fmt.Println(string(printed))
}
""",
}
# -S: nothing but the standard library.
PROGRAMS = {"python": [sys.executable, "-S", "-c"], "ruby": ["ruby", "-W", "-e"], "js": ["node", "--input-type=module", "-e"], "go": ["go"]}
# How long each waits for an answer, as it stands in the document, and half a second.
PATIENCE = {
    "python": ("timeout=10", "timeout=0.5"), "ruby": ("read_timeout: 10", "read_timeout: 0.5"),
    "js": ("timeout(10_000)", "timeout(500)"), "go": ("10 * time.Second", "time.Second / 2"),
}

pytestmark = pytest.mark.needs("ruby", "node")


def documented(language):
    """The document's block of a language that defines the call."""
    found = [block.content for block in blocks(ROOT / DOCUMENT, DOCUMENT) if block.language == language and not block.not_run]
    assert len(found) == 1, f"{DOCUMENT}: {len(found)} blocks of {language}"
    return found[0]


def go_program(source, folder):
    """What it is compiled to; Go has no -e."""
    folder = pathlib.Path(folder, "go")
    folder.mkdir(exist_ok=True)
    (folder / "producer.go").write_text(source.replace("package campanile", "package main").replace("time.Sleep(", "noted("))
    environment = {**os.environ, "GO111MODULE": "off", "GOFLAGS": ""}
    built = subprocess.run(["go", "build", "-o", "producer", "producer.go"], cwd=folder, env=environment, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    subprocess.run(["go", "vet", "producer.go"], cwd=folder, env=environment, check=True)
    return [str(folder / "producer")]


class Front:
    """What stands between a producer and the server. `plan` is what it does with the next requests: `busy` (503), `lost` (the
    server answers, and the producer doesn't hear it), `silent`; afterwards it hands everything on."""

    def __init__(self, port):
        front = self
        self.plan, self.asked, self.released = [], [], threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                front.answer(self, port)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, handler, port):
        handler.close_connection = True
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        does = self.plan.pop(0) if self.plan else "hand on"
        self.asked.append((handler.headers["Idempotency-Key"], body))
        if does == "silent":
            self.released.wait(RUN_SECONDS)
        elif does == "busy":
            headers = {"Content-Type": "application/problem+json", "Retry-After": str(RETRY_AFTER)}
            self.give(handler, 503, headers, PROBLEM.encode())
        else:
            server = http.client.HTTPConnection("127.0.0.1", port, timeout=RUN_SECONDS)
            wanted = {name: handler.headers[name] for name in ("Authorization", "Content-Type", "Idempotency-Key")}
            server.request("POST", handler.path, body, wanted)
            answer = server.getresponse()
            content = answer.read()
            if does != "lost":
                self.give(handler, answer.status, {"Content-Type": answer.headers["Content-Type"]}, content)

    @staticmethod
    def give(handler, status, headers, body):
        handler.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body)), "Connection": "close"}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.released.set()
        self.server.shutdown()
        self.server.server_close()


class World:
    """One language's producer, and what it talks to."""

    def __init__(self, language, server, key, front):
        self.language, self.server, self.key, self.front = language, server, key, front
        self.source = documented(language)

    def run(self, call, *arguments, plan=(), address=None, key=None):
        self.front.plan, self.front.asked = list(plan), []
        environment = {"PATH": os.environ["PATH"], "HOME": self.server.folder, "LC_ALL": "C.UTF-8",
                       "CAMPANILE_URL": address or self.front.address, "CAMPANILE_KEY": key or self.key}
        source = self.source + ENDINGS[self.language]
        program = go_program(source, self.server.folder) if self.language == "go" else [*PROGRAMS[self.language], source]
        done = subprocess.run(
            [*program, json.dumps({"call": call, "arguments": arguments})],
            cwd=self.server.folder, env=environment, capture_output=True, text=True, timeout=RUN_SECONDS)
        assert done.returncode == 0 and not done.stderr, done.stderr
        return json.loads(done.stdout)

    def titles(self, user):
        answer = self.server.connection().request("GET", "/notifications", credential=self.server.user_token(user))
        assert answer.status == 200, answer
        return [one["title"] for one in answer.json()["notifications"]]


@pytest.fixture(scope="module", params=PROGRAMS)
def producer(request, binary):
    """A language, its server, and a key."""
    if not shutil.which(PROGRAMS[request.param][0]):
        pytest.skip(f"there is no {request.param} here (for Go: apt-get install golang-go)")
    with serving(binary) as server:
        yield request.param, server, server.producer_key("producers")


@pytest.fixture
def world(producer):
    language, server, key = producer
    with Front(server.port) as front:
        yield World(language, server, key, front)


def test_a_notification_is_created(world):
    ended = world.run("notify", {"user_id": "plain", "title": "Ünï"}, "key-plain")
    assert ended["answer"]["title"] == "Ünï" and ended["sleeps"] == [], ended
    assert [key for key, _ in world.front.asked] == ["key-plain"] and world.titles("plain") == ["Ünï"]


def test_a_busy_server_is_asked_again_when_it_says(world):
    ended = world.run("notify", {"user_id": "busy", "title": "Hello"}, "key-busy", plan=["busy", "busy"])
    assert ended["answer"]["title"] == "Hello", ended
    assert len(ended["sleeps"]) == 2 and all(RETRY_AFTER <= one <= 2 * RETRY_AFTER for one in ended["sleeps"]), ended
    assert len(world.front.asked) == 3 and len(set(world.front.asked)) == 1, world.front.asked


def test_a_lost_answer_makes_no_second_notification(world):
    ended = world.run("notify", {"user_id": "lost", "title": "Once"}, "key-lost", plan=["lost", "lost"])
    assert ended["answer"]["title"] == "Once" and len(world.front.asked) == 3, (ended, world.front.asked)
    assert world.titles("lost") == ["Once"], world.titles("lost")


def test_a_silent_server_is_asked_again(world):
    patience, shorter = PATIENCE[world.language]
    assert patience in world.source, f"the producer has no {patience}"
    world.source = world.source.replace(patience, shorter)
    ended = world.run("notify", {"user_id": "silent", "title": "Hello"}, "key-silent", plan=["silent"])
    assert "answer" in ended and len(world.front.asked) >= 2 and len(set(world.front.asked)) == 1, (ended, world.front.asked)


def test_a_wrong_request_is_refused_at_once_and_says_why(world):
    ended = world.run("notify", {"user_id": "wrong"}, "key-wrong")
    assert ended["refused"].startswith("422 ") and '"title"' in ended["refused"] and len(world.front.asked) == 1, ended
    if "problem" in ended:
        assert ended["problem"]["errors"][0]["field"] == "title", ended
    ended = world.run("notify", {"user_id": "wrong", "title": "Hello"}, "key-wrong", key="cmp_nobodys")
    assert ended["refused"].startswith("401 ") and ended["sleeps"] == [] and len(world.front.asked) == 1, ended


def test_a_server_that_stays_away_is_no_refusal(world):
    for place in ({"plan": ["busy"] * ATTEMPTS}, {"plan": ["lost"] * ATTEMPTS}, {"address": f"http://127.0.0.1:{free_port()}"}):
        ended = world.run("notify", {"user_id": "away", "title": "Hello"}, "key-away", **place)
        assert "failed" in ended and len(ended["sleeps"]) == ATTEMPTS - 1, ended
        assert all(2 ** number <= one for number, one in enumerate(ended["sleeps"])), ended
        assert len(world.front.asked) == (ATTEMPTS if "plan" in place else 0), world.front.asked


def test_many_users_are_told_in_parts(world):
    users = [f"user-{number:04}" for number in range(1001)]
    ended = world.run("notify_all", [*users, users[0]], {"title": "Sale"}, "key-sale")
    assert "answer" in ended, ended
    parts = [json.loads(body)["user_ids"] for _, body in world.front.asked]
    assert [len(part) for part in parts] == [1000, 1] and sorted(sum(parts, [])) == users
    assert len({key for key, _ in world.front.asked}) == 2, "a key each"
    assert world.titles(users[0]) == world.titles(users[-1]) == ["Sale"]
