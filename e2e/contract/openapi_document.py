"""What openapi.yaml says beside its schemas, put back into them.

Generators of clients break at some of what JSON Schema can say (`check_openapi.py` names it), so it stands in extensions
that they pass over. `tighten` makes the document that the server is held to.
"""
PROBLEM = "application/problem+json"
METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")


def resolve(node, document):
    while isinstance(node, dict) and "$ref" in node:
        target = document
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = target
    return node


def nodes(node, where=""):
    """Every object of the document, with its place."""
    if isinstance(node, dict):
        yield where, node
    for key, child in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield from nodes(child, f"{where}/{key}")


def responses(document):
    """Every answer of every operation: its status and the response, without references."""
    for item in document["paths"].values():
        for method in METHODS:
            for status, response in item.get(method, {}).get("responses", {}).items():
                yield status, resolve(response, document)


def tighten(document):
    """`x-pattern` becomes `pattern`, `x-schema` `schema`. A problem's `status` is that of its answer, its `code` one of
    `x-problem-codes`."""
    for _, node in nodes(document):
        if "x-pattern" in node:
            node["pattern"] = node["x-pattern"]
        if "x-schema" in node:
            node["schema"] = node["x-schema"]
    for status, response in responses(document):
        if "x-problem-codes" in response:
            response["content"][PROBLEM]["schema"] = {"allOf": [
                {"$ref": "#/components/schemas/Problem"},
                {"properties": {"status": {"const": int(status)}, "code": {"enum": response["x-problem-codes"]}}}]}
