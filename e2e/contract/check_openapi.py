"""Checks openapi.yaml by itself: it is valid OpenAPI 3.1, every example fits its schema, every link leads to an operation
and its parameters, every operation says what all of them must, and nothing stands in it that breaks generated clients.
Prints a line a problem; exit code 1 if there is one."""
import sys

import yaml
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from e2e import ROOT
from e2e.contract.openapi_document import METHODS, PROBLEM, nodes, resolve, tighten

PATH = ROOT / "openapi.yaml"
# Answers that every operation can give, and those that come with a credential or a body.
ALWAYS = {"400", "405", "414", "431", "500", "503"}
WITH_CREDENTIAL = {"401", "403"}
WITH_BODY = {"413", "415", "422"}


class Document:
    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.raw = yaml.safe_load(file)
        self.problems, self.checked = [], 0

    def resolve(self, node):
        return resolve(node, self.raw)

    def operations(self):
        for path, item in self.raw["paths"].items():
            for method in METHODS:
                if method in item:
                    yield f"{method.upper()} {path}", item.get("parameters", []), item[method]

    def check_example(self, where, schema, value):
        """The schema is checked inside the whole document, so that its references lead somewhere."""
        self.checked += 1
        whole = {**schema, "components": self.raw["components"]}
        validator = Draft202012Validator(whole, format_checker=Draft202012Validator.FORMAT_CHECKER)
        for error in validator.iter_errors(value):
            self.problems.append(f"{where}: example: {error.json_path}: {error.message}")


def check_media(document, where, content):
    for media in content.values():
        for name, example in media.get("examples", {}).items():
            document.check_example(f"{where} ({name})", media["schema"], document.resolve(example)["value"])


def check_parameters(document, label, parameters):
    for parameter in map(document.resolve, parameters):
        where = f"{label} {parameter['name']}"
        if "example" in parameter:
            document.check_example(where, parameter["schema"], parameter["example"])
        if "description" not in parameter:
            document.problems.append(f"{where}: no description")


def check_link(document, where, link, ids):
    target = ids.get(link["operationId"])
    if target is None:
        document.problems.append(f"{where}: link to the unknown operation {link['operationId']}")
        return
    known = {parameter["name"] for parameter in map(document.resolve, target[1] + target[2].get("parameters", []))}
    for name in link.get("parameters", {}):
        if name not in known:
            document.problems.append(f"{where}: link gives {name}, which {target[0]} doesn't have")


def check_response(document, where, response, ids):
    for name, header in response.get("headers", {}).items():
        header = document.resolve(header)
        if "example" in header:
            document.check_example(f"{where} {name}", header["schema"], header["example"])
    if "X-Request-Id" not in response.get("headers", {}):
        document.problems.append(f"{where}: no X-Request-Id")
    check_media(document, where, response.get("content", {}))
    for link in response.get("links", {}).values():
        check_link(document, where, document.resolve(link), ids)


def check_operation(document, label, shared, operation, ids):
    expected = set(ALWAYS)
    security = operation.get("security", [])
    expected |= WITH_CREDENTIAL if security and {} not in security else set()
    if "101" in operation["responses"]:
        expected -= {"401"}  # a WebSocket's status is hidden from its page: what is wrong is said after the upgrade
    expected |= WITH_BODY if "requestBody" in operation else set()
    missing = expected - set(operation["responses"])
    if missing:
        document.problems.append(f"{label}: does not say {', '.join(sorted(missing))}")
    for key in ("operationId", "summary", "tags"):
        if key not in operation:
            document.problems.append(f"{label}: no {key}")
    check_parameters(document, label, shared + operation.get("parameters", []))
    body = operation.get("requestBody", {}).get("content", {})
    check_media(document, f"{label} request", body)
    for media in body.values():
        if not media.get("examples"):
            document.problems.append(f"{label}: no example of a request")
    for status, response in operation["responses"].items():
        check_response(document, f"{label} {status}", document.resolve(response), ids)


def check_references(document):
    """Nothing stands under components that nobody uses."""
    text = PATH.read_text(encoding="utf-8")
    for kind, members in document.raw["components"].items():
        for name in members:
            if kind != "securitySchemes" and f"#/components/{kind}/{name}'" not in text:
                document.problems.append(f"components/{kind}/{name}: nobody uses it")


def check_for_generators(document):
    """What is right by the specification, and breaks the clients that openapi-generator (7.26) and openapi-python-client
    (0.29) make. `make generators` and generated_calls.py run such clients; this names the place."""
    for where, node in nodes(document.raw):
        if "requestBody" in node and "/links/" in where:
            document.problems.append(f"{where}: a link's requestBody: openapi-generator refuses the document")
        if node.get("type") == "apiKey" and node.get("in") == "cookie":
            document.problems.append(f"{where}: in: cookie: openapi-generator's Ruby fails at it; write it as the header Cookie")
        if node.get("format") == "date-time" and "pattern" in node:
            document.problems.append(f"{where}: pattern beside date-time: openapi-generator's Ruby refuses all; write x-pattern")
        if node.get("type") == "null" and "/oneOf/" not in where:
            document.problems.append(f"{where}: type null alone: openapi-generator's Python ends there; write const: null")
        if isinstance(node.get("type"), list) and "number" in node["type"] and "integer" not in node["type"]:
            document.problems.append(f"{where}: number without integer: openapi-generator's Ruby reads whole ones as nil")
        if isinstance(node.get("content"), dict):
            media = node["content"].get(PROBLEM)
            if (media is not None) != ("x-problem-codes" in node):
                document.problems.append(f"{where}: x-problem-codes and {PROBLEM} come together")
            if media is not None and media["schema"] != {"$ref": "#/components/schemas/Problem"}:
                document.problems.append(f"{where}: not Problem itself: openapi-python-client leaves the answer out")


def main():
    document = Document(PATH)
    for error in OpenAPIV31SpecValidator(document.raw).iter_errors():
        document.problems.append(f"OpenAPI 3.1: {error.json_path}: {error.message}")
    check_for_generators(document)
    tighten(document.raw)
    ids = {operation["operationId"]: (label, shared, operation) for label, shared, operation in document.operations()}
    if len(ids) != len(list(document.operations())):
        document.problems.append("two operations have one operationId")
    for label, shared, operation in document.operations():
        check_operation(document, label, shared, operation, ids)
    check_references(document)
    for problem in document.problems:
        print(problem)
    print(f"openapi.yaml: {len(ids)} operations, {document.checked} examples checked, {len(document.problems)} problems")
    return 1 if document.problems else 0


if __name__ == "__main__":
    sys.exit(main())
