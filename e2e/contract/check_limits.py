"""Holds the pages that list limits to the sources: every limit stands in one table of one page with its value, and no other does.

A limit is a constant with a plain value in one of SOURCES. A section of a page begins with the source of its table, "From `PATH`", and
a row with the constant's name and its value as the source computes it: `| \\`titleBytes\\` | 256 | …`. One source's limits may stand
in several sections, as their readers differ. Prints a line a difference; exit code 1 if there is one.
"""
import ast
import operator
import re
import sys

from e2e import ROOT

DOCUMENTS = ["docs/limits.md", "docs/capacity.md", "docs/configuration.md"]
# Source file, and the type that holds the constants.
SOURCES = {
    "Sources/CampanileServer/Domain/Limits.swift": "Limits",
    "Sources/HTTPEngine/Message/Limits.swift": "Limits",
    "Sources/HTTPEngine/EventStreams/StreamLimits.swift": "StreamLimits",
    "Sources/SQLEngine/SQLite/Options.swift": "DatabaseOptions",
    "Sources/SQLEngine/Postgres/PostgresOptions.swift": "PostgresOptions",
    "Sources/CampanileServer/Configuration/ConfigurationTypes.swift": "ConfigurationLimits",
}
# A text, a switch, a function (the clock of the database) and what follows from others are no limits.
NO_LIMIT = r"(?!: @Sendable )(?!: \w+ \{)(?! = (?:\"|true$|false$))"
CONSTANT = re.compile(rf"^    (?:package )?(?:static let|var) (\w+)\b{NO_LIMIT}(?:: [\w.<>]+)? = (.+)$", re.MULTILINE)
DECLARATION = re.compile(rf"^    (?:\w+ )*(?:let|var) \w+\b{NO_LIMIT}", re.MULTILINE)
FROM = re.compile(r"\A.*\n\nFrom `([^`]+)`")
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


def rows(document):
    """The source, the name and the value of every row under a heading that names a source."""
    for section in re.split(r"^##+ ", document, flags=re.MULTILINE)[1:]:
        source = FROM.search(section)
        if source:
            for name, value in ROW.findall(section):
                # What stands behind the value in parentheses is the same for people.
                yield source.group(1), name, value.split(" (")[0]


def main():
    told = [(page, *row) for page in DOCUMENTS for row in rows((ROOT / page).read_text(encoding="utf-8"))]
    problems, checked = [], 0
    for path, type_name in SOURCES.items():
        source = constants(path, type_name)
        checked += len(source)
        for name, value in source.items():
            found = [(page, row_value) for page, row_path, row_name, row_value in told if (row_path, row_name) == (path, name)]
            if len(found) != 1:
                pages = " and ".join(page for page, _ in found) or "no page"
                problems.append(f"`{name}` of {path} is to stand once, and stands in {pages}")
            problems += [f"{page}: `{name}` is {value} in {path}, and {here} here" for page, here in found if here != value]
        problems += [f"{page}: `{name}` is no limit of {path}" for page, row_path, name, _ in told if row_path == path and name not in source]
    problems += [f"{page}: `{name}` is from {path}, which this script doesn't read" for page, path, name, _ in told if path not in SOURCES]
    for problem in problems:
        print(problem)
    print(f"check_limits: {checked} limits, {len(problems)} differences")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
