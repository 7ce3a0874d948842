"""Clients that generators make from openapi.yaml, against a server: they must generate, call, and see every problem.

openapi-python-client (part of `make test`) and openapi-generator, in Python and Ruby (`make generators`). Each generates
from GET /openapi.yaml of the server that its client then calls; generated_calls.py and generated_calls.rb are the calls.

Prints a line for each group of calls and "N passed, N failed"; exit code 1 if anything failed.
"""
import argparse
import importlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback

from generated_calls import CALLS, Answer, Refused
from harness import Campanile, HarnessError, temporary_folder

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
GENERATED = ROOT / ".build/generated"
BIN = pathlib.Path(sys.executable).parent

RUBY_USERS = ("bob", "dora", "erin", "frank", "grace", "heidi", "ivan")


class GeneratorError(Exception):
    """A generator made no client, or left something out."""


def snake_case(name):
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def generate(*command):
    """Runs a generator; gives what it printed."""
    done = subprocess.run([str(part) for part in command], env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise GeneratorError(f"{pathlib.Path(command[0]).name} ended with {done.returncode}:\n{done.stdout[-4000:]}")
    return done.stdout


# --- openapi-python-client

class OpenAPIPythonClient:
    """The client that openapi-python-client makes: a module an operation, enumerations as classes."""

    PACKAGE = "campanile_client"
    # It knows no YAML: who reads the contract with the client finds it in `content`.
    LEFT_OUT = ["GET /openapi.yaml within operations"]
    ENUMERATIONS = {"status": "ListNotificationsStatus", "environment": "EnvironmentType0"}
    DATA = "DataType0"

    @classmethod
    def generate(cls, source):
        option = "--url" if source.startswith("http") else "--path"
        printed = generate(BIN / "openapi-python-client", "generate", option, source, "--meta", "none",
                           "--output-path", GENERATED / cls.PACKAGE)
        warned = re.findall(r"^WARNING parsing (.*)\.\n\n(.*)$", printed, re.MULTILINE)
        if [where for where, _ in warned] != cls.LEFT_OUT:
            some = "\n".join(f"{where}: {why}" for where, why in warned[:8])
            raise GeneratorError(f"openapi-python-client left out {len(warned)}, not only {cls.LEFT_OUT}:\n{some}")
        sys.path.insert(0, str(GENERATED))

    def __init__(self, address, token, access_token=None, user_agent=None):
        self.models = importlib.import_module(f"{self.PACKAGE}.models")
        package = importlib.import_module(self.PACKAGE)
        self.client = package.AuthenticatedClient(
            base_url=address, token=token, raise_on_unexpected_status=True,
            headers={"User-Agent": user_agent} if user_agent else {},
            httpx_args={"params": {"access_token": access_token}} if access_token else {})

    def _typed(self, members):
        typed = {name: getattr(self.models, self.ENUMERATIONS[name])(value) if name in self.ENUMERATIONS else value
                 for name, value in members.items()}
        if "data" in typed:
            typed["data"] = getattr(self.models, self.DATA).from_dict(typed["data"])
        return typed

    def model(self, name, **members):
        return getattr(self.models, name)(**self._typed(members))

    @staticmethod
    def plain(value):
        return value.additional_properties

    @classmethod
    def operation(cls, name):
        """The module of an operation, which stands in a folder by its tag."""
        found = next((GENERATED / cls.PACKAGE / "api").glob(f"*/{snake_case(name)}.py"))
        return importlib.import_module(f"{cls.PACKAGE}.api.{found.parent.name}.{found.stem}")

    def call(self, name, **arguments):
        answer = self.operation(name).sync_detailed(client=self.client, **self._typed(arguments))
        if answer.status_code >= 400:
            raise Refused(answer.status_code, answer.parsed, answer.headers)
        return Answer(answer.status_code, answer.parsed, answer.headers)

    @classmethod
    def every_problem_has_its_type(cls, world):
        """Every answer of 4xx and 5xx that openapi.yaml names, those that no call here meets among them."""
        import httpx  # these three are not in the environment of openapi-generator
        import yaml

        from openapi_document import METHODS, PROBLEM, resolve
        document = yaml.safe_load((ROOT / "openapi.yaml").read_text(encoding="utf-8"))
        client, checked = world.producer.client, 0
        for operation in (item[method] for item in document["paths"].values() for method in METHODS if method in item):
            for status, response in operation["responses"].items():
                if PROBLEM not in resolve(response, document).get("content", {}):
                    continue
                problem = {"type": "urn:campanile:problem:x", "title": "X", "status": int(status), "code": "x", "request_id": "1"}
                answer = httpx.Response(int(status), json=problem, headers={"Content-Type": PROBLEM})
                parsed = cls.operation(operation["operationId"])._parse_response(client=client, response=answer)
                assert type(parsed).__name__ == "Problem", f"{operation['operationId']}: a {status} came as {parsed!r}"
                checked += 1
        assert checked > 150, checked


# --- openapi-generator

class OpenAPIGeneratorPython:
    """The Python client that openapi-generator makes: a class a tag, bodies of several forms in a class of their own."""

    PACKAGE = "openapi_client"
    BODIES = {"createNotification": "CreateNotificationRequest", "registerDeviceToken": "RegisterDeviceTokenRequest"}

    @classmethod
    def generate(cls, source):
        generate(BIN / "openapi-generator-cli", "generate", "-g", "python", "-i", source, "-o", GENERATED / "python")
        sys.path.insert(0, str(GENERATED / "python"))

    def __init__(self, address, token, access_token=None, user_agent=None):
        self.package = importlib.import_module(self.PACKAGE)
        configuration = self.package.Configuration(
            host=address, access_token=token, api_key={"accessToken": access_token} if access_token else None)
        self.client = self.package.ApiClient(configuration)
        if user_agent:
            self.client.user_agent = user_agent

    def model(self, name, **members):
        if "data" in members:
            members["data"] = {key: self.package.DataValue(value) for key, value in members["data"].items()}
        return getattr(self.package, name)(**members)

    @staticmethod
    def plain(value):
        return {key: getattr(one, "actual_instance", one) for key, one in value.items()}

    def operation(self, name):
        method = f"{snake_case(name)}_with_http_info"
        api = next(one for key, one in vars(self.package).items() if key.endswith("Api") and hasattr(one, method))
        return getattr(api(self.client), method)

    def call(self, name, **arguments):
        operation = self.operation(name)
        if "body" in arguments:
            body, kind = arguments.pop("body"), self.BODIES.get(name)
            arguments[snake_case(kind or type(body).__name__)] = getattr(self.package, kind)(body) if kind else body
        try:
            answer = operation(**arguments)
        except self.package.ApiException as refused:
            if refused.status == 304:
                return Answer(304, refused.data, refused.headers)
            raise Refused(refused.status, refused.data, refused.headers) from None
        return Answer(answer.status_code, getattr(answer.data, "actual_instance", answer.data), answer.headers)


def ruby(source, world):
    """The Ruby client; its calls are a program of Ruby, which prints its own lines. Gives (passed, failed)."""
    if not shutil.which("ruby"):
        raise GeneratorError("ruby is missing: apt-get install ruby ruby-typhoeus")
    generate(BIN / "openapi-generator-cli", "generate", "-g", "ruby", "-i", source, "-o", GENERATED / "ruby")
    tokens = {user: world.token(user) for user in RUBY_USERS}
    given = {"address": world.address, "database": world.database, "key": world.key, "operate_key": world.operate_key, "tokens": tokens}
    done = subprocess.run(["ruby", "-I", str(GENERATED / "ruby/lib"), str(HERE / "generated_calls.rb")],
                          input=json.dumps(given), stdout=subprocess.PIPE, text=True)
    print(done.stdout, end="", flush=True)
    passed, failed = (len(re.findall(rf"^{word} ", done.stdout, re.MULTILINE)) for word in ("passed", "FAILED"))
    return passed, failed or int(done.returncode != 0)


# --- the frame

class World:
    """A server with an empty database, and clients of the kind that is tried."""

    def __init__(self, server, kind):
        self.server, self.kind, self.database = server, kind, server.database
        self.address = f"http://127.0.0.1:{server.port}"
        self.key = server.producer_key("generated")
        self.operate_key = server.command("keys", "create", "generated-operate", "--operate")[1]

    @property
    def producer(self):
        return self.connect(self.key)

    def token(self, user):
        return self.server.user_token(user)

    def reader(self, user):
        return self.connect(self.token(user))

    def connect(self, token, **more):
        return self.kind(self.address, token, **more)


def run(world, calls):
    failed = 0
    for one in calls:
        started = time.monotonic()
        try:
            one(world)
        except Exception:  # whatever a generated client raises
            failed += 1
            print(f"FAILED  {one.__name__}\n{traceback.format_exc()}", flush=True)
        else:
            print(f"passed  {one.__name__} ({time.monotonic() - started:.1f} s)", flush=True)
    return len(calls) - failed, failed


def with_server(options, kind, work):
    """Gives (passed, failed) of `work`, which gets where the document is, and the world."""
    with temporary_folder("campanile-generated-") as folder:
        server = Campanile(str(options.binary), f"{folder}/generated.sqlite", folder)
        server.start()
        world = World(server, kind)
        try:
            counts = work(options.document or f"{world.address}/openapi.yaml", world)
        except GeneratorError as error:
            print(f"FAILED  {error}", flush=True)
            counts = (0, 1)
        server.stop()
    return counts


def python(source, world):
    world.kind.generate(source)
    more = [world.kind.every_problem_has_its_type] if world.kind is OpenAPIPythonClient else []
    return run(world, CALLS + more)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("generator", choices=["openapi-python-client", "openapi-generator"])
    parser.add_argument("--binary", default=ROOT / ".build/debug/campanile", type=pathlib.Path, help="default: %(default)s")
    parser.add_argument("--document", help="another document than the server's own, to see what breaks")
    options = parser.parse_args()
    if not os.access(options.binary, os.X_OK):
        parser.error(f"{options.binary} is not a program; build it first (make build)")
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # runs what is to be cleaned up
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"
    shutil.rmtree(GENERATED, ignore_errors=True)
    GENERATED.mkdir(parents=True)
    runs = {"openapi-python-client": [(OpenAPIPythonClient, python)],
            "openapi-generator": [(OpenAPIGeneratorPython, python), (None, ruby)]}
    passed = failed = 0
    for kind, work in runs[options.generator]:
        print(f"{options.generator}, {work.__name__}", flush=True)
        counts = with_server(options, kind, work)
        passed, failed = passed + counts[0], failed + counts[1]
    print(f"generated clients: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except HarnessError as error:
        sys.exit(f"generated_clients.py: {error}")
