"""Holds docs/limits.md to the sources: every limit stands in its table with its value, and no other does.

A limit is a constant with a plain value in one of SOURCES. A row of the document begins with the constant's name and its
value as the source computes it: `| \\`titleBytes\\` | 256 | …`. Prints a line a difference; exit code 1 if there is one.
"""
import ast
import operator
import re
import sys

from e2e import ROOT

DOCUMENT = ROOT / "docs/limits.md"
# Source file, heading of its table in the document, and the type that holds the constants.
SOURCES = [
    ("Sources/CampanileServer/Domain/Limits.swift", "## Requests, devices, delivery", "Limits"),
    ("Sources/HTTPEngine/Message/Limits.swift", "## HTTP", "Limits"),
    ("Sources/HTTPEngine/EventStreams/StreamLimits.swift", "## Event streams", "StreamLimits"),
    ("Sources/SQLEngine/Options.swift", "## The database", "DatabaseOptions"),
    ("Sources/SQLEngine/Postgres/PostgresOptions.swift", "## PostgreSQL", "PostgresOptions"),
    ("Sources/CampanileServer/Configuration/ConfigurationTypes.swift", "## The configuration file", "ConfigurationLimits"),
]
# A text, a switch, a function (the clock of the database) and what follows from others are no limits.
NO_LIMIT = r"(?!: @Sendable )(?!: \w+ \{)(?! = (?:\"|true$|false$))"
CONSTANT = re.compile(rf"^    (?:package )?(?:static let|var) (\w+)\b{NO_LIMIT}(?:: [\w.<>]+)? = (.+)$", re.MULTILINE)
DECLARATION = re.compile(rf"^    (?:\w+ )*(?:let|var) \w+\b{NO_LIMIT}", re.MULTILINE)
ROW = re.compile(r"^\| `(\w+)` \| ([^|]+?) \|", re.MULTILINE)
OPERATORS = {ast.Mult: operator.mul, ast.Add: operator.add, ast.Sub: operator.sub, ast.LShift: operator.lshift}


def number(expression):
    """The value of a whole number written with `_`, `*`, `+`, `-` and `<<`."""
    def value(node):
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](value(node.left), value(node.right))
        raise ValueError
    try:
        return f"{value(ast.parse(expression, mode='eval').body):,}"
    except (SyntaxError, ValueError):
        raise SystemExit(f"check_limits: {expression!r} is no plain value") from None


def written(expression):
    """How the document writes a value of Swift."""
    expression = expression.split("//")[0].strip()
    if expression.startswith("."):
        return expression[1:]
    if "..." in expression:
        return " to ".join(number(end) for end in expression.split("..."))
    return number(expression)


def constants(path, type_name):
    text = (ROOT / path).read_text(encoding="utf-8")
    body = re.search(rf"^(?:package )?(?:enum|struct) {type_name}\b.*?\n}}$", text, re.MULTILINE | re.DOTALL)
    found = {name: written(expression) for name, expression in CONSTANT.findall(body.group(0))} if body else {}
    if not found or len(found) != len(DECLARATION.findall(body.group(0))):
        raise SystemExit(f"check_limits: {path}: {type_name} isn't written as this script expects")
    return found


def rows(document, heading):
    if heading not in document:
        return {}
    section = document.split(heading, 1)[1].split("\n## ", 1)[0]
    # What stands behind the value in parentheses is the same for people.
    return {name: value.split(" (")[0] for name, value in ROW.findall(section)}


def main():
    document = DOCUMENT.read_text(encoding="utf-8")
    problems, checked = [], 0
    for path, heading, type_name in SOURCES:
        source, told = constants(path, type_name), rows(document, heading)
        checked += len(source)
        for name, value in source.items():
            if told.get(name) != value:
                problems.append(f"docs/limits.md, {heading[3:]}: `{name}` is {value} in {path}, and {told.get(name, 'missing')} here")
        problems += [
            f"docs/limits.md, {heading[3:]}: `{name}` is no limit of {path}" for name in told if name not in source]
    for problem in problems:
        print(problem)
    print(f"check_limits: {checked} limits, {len(problems)} differences")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
