"""Clients that generators make from openapi.yaml, against a server: they must generate, call, and see every problem.

openapi-python-client (part of `make test`) and openapi-generator, in Python and Ruby (`make generators`). Each generates
from GET /openapi.yaml of the server that its client then calls. The calls are in generated_calls.py and, in Ruby, in
generated_calls.rb.

A client here is something with `call(operationId, **arguments)`, which gives an Answer or raises Refused, `model(name,
**members)`, which makes a body, and `plain(value)`, which gives a free object as a dict. All else is the generated code's own.
"""
import dataclasses
import importlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import typing

from e2e import ROOT

HERE = pathlib.Path(__file__).resolve().parent
GENERATED = ROOT / ".build/generated"
BIN = pathlib.Path(sys.executable).parent

RUBY_USERS = ("bob", "dora", "erin", "frank", "grace", "heidi", "ivan", "kate", "lena")


class GeneratorError(Exception):
    """A generator made no client, or left something out."""


@dataclasses.dataclass
class Answer:
    status: int
    data: typing.Any
    headers: typing.Any


class Refused(Exception):
    """An answer of 4xx or 5xx. `problem` is what the generated client made of it."""

    def __init__(self, status, problem, headers):
        super().__init__(f"{status}: {problem}")
        self.status, self.problem, self.headers = status, problem, headers


def snake_case(name):
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def generate(folder, *command):
    """Runs a generator that fills a new folder; gives what it printed."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run([str(part) for part in command], env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise GeneratorError(f"{pathlib.Path(command[0]).name} ended with {done.returncode}:\n{done.stdout[-4000:]}")
    return done.stdout


# --- openapi-python-client

class OpenAPIPythonClient:
    """The client that openapi-python-client makes: a module an operation, enumerations as classes."""

    PACKAGE = "campanile_client"
    # It knows neither OpenMetrics nor YAML: who reads them with the client finds them in `content`.
    LEFT_OUT = ["GET /metrics within operations", "GET /openapi.yaml within operations"]
    ENUMERATIONS = {"status": "ListNotificationsStatus", "environment": "EnvironmentType0", "state": "SearchDeliveriesState"}
    DATA = "DataType0"

    @classmethod
    def generate(cls, source):
        option = "--url" if source.startswith("http") else "--path"
        folder = GENERATED / cls.PACKAGE
        printed = generate(folder, BIN / "openapi-python-client", "generate", option, source, "--meta", "none", "--output-path", folder)
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
        if isinstance(typed.get("data"), dict):
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

    def call(self, name, /, **arguments):
        answer = self.operation(name).sync_detailed(client=self.client, **self._typed(arguments))
        if answer.status_code >= 400:
            raise Refused(answer.status_code, answer.parsed, answer.headers)
        return Answer(answer.status_code, answer.parsed, answer.headers)

    @classmethod
    def every_problem_has_its_type(cls, world):
        """Every answer of 4xx and 5xx that openapi.yaml names, those that no call here meets among them."""
        import httpx  # these three are not in the environment of openapi-generator
        import yaml

        from e2e.contract.openapi_document import METHODS, PROBLEM, resolve
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
    BODIES = {"createNotification": "CreateNotificationRequest", "registerDeviceToken": "RegisterDeviceTokenRequest",
              "updateNotification": "UpdateNotificationRequest", "broadcast": "BroadcastRequest"}

    @classmethod
    def generate(cls, source):
        folder = GENERATED / "python"
        generate(folder, BIN / "openapi-generator-cli", "generate", "-g", "python", "-i", source, "-o", folder)
        sys.path.insert(0, str(folder))

    def __init__(self, address, token, access_token=None, user_agent=None):
        self.package = importlib.import_module(self.PACKAGE)
        configuration = self.package.Configuration(
            host=address, access_token=token, api_key={"accessToken": access_token} if access_token else None)
        self.client = self.package.ApiClient(configuration)
        if user_agent:
            self.client.user_agent = user_agent

    def model(self, name, **members):
        if isinstance(members.get("data"), dict):
            members["data"] = {key: self.package.DataValue(value) for key, value in members["data"].items()}
        return getattr(self.package, name)(**members)

    @staticmethod
    def plain(value):
        return {key: getattr(one, "actual_instance", one) for key, one in value.items()}

    def operation(self, name):
        method = f"{snake_case(name)}_with_http_info"
        api = next(one for key, one in vars(self.package).items() if key.endswith("Api") and hasattr(one, method))
        return getattr(api(self.client), method)

    def call(self, name, /, **arguments):
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


# By generator.
KINDS = {"openapi-python-client": OpenAPIPythonClient, "openapi-generator": OpenAPIGeneratorPython}


def ruby(source, world):
    """openapi-generator's Ruby client; its calls are a program of Ruby. Gives what that printed, and its exit status."""
    folder = GENERATED / "ruby"
    generate(folder, BIN / "openapi-generator-cli", "generate", "-g", "ruby", "-i", source, "-o", folder)
    tokens = {user: world.token(user) for user in RUBY_USERS}
    given = {"address": world.address, "database": world.database, "key": world.key, "operate_key": world.operate_key,
             "broadcast_key": world.broadcast_key, "tokens": tokens}
    done = subprocess.run(["ruby", "-I", str(folder / "lib"), str(HERE / "generated_calls.rb")],
                          input=json.dumps(given), stdout=subprocess.PIPE, text=True)
    return done.stdout, done.returncode


class World:
    """A server with an empty database, and clients of the kind that is tried."""

    def __init__(self, server, kind):
        self.server, self.kind, self.database = server, kind, server.database
        self.address = f"http://127.0.0.1:{server.port}"
        self.key = server.producer_key("generated")
        self.operate_key = server.command("keys", "create", "generated-operate", "--operate")[1]
        self.broadcast_key = server.command("keys", "create", "generated-broadcast", "--broadcast")[1]

    @property
    def producer(self):
        return self.connect(self.key)

    def token(self, user):
        return self.server.user_token(user)

    def reader(self, user):
        return self.connect(self.token(user))

    def connect(self, token, **more):
        return self.kind(self.address, token, **more)
