"""Checks that every relative link of the Markdown documents leads to a file, and its #fragment to a heading.

Symbols right after a link to a source, as in `[Shell.swift](…), `start` and `end``, must stand in that file. The control is such a
line with a made-up symbol, which must be found. Prints a line a problem; exit code 1 if there is one.
"""
import re
import sys

from e2e import ROOT

FOLDERS = (".", "docs", "docs/adr", ".github", "bench", "e2e/*", "examples/*", "clients", "clients/*")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
SYMBOLS = re.compile(LINK.pattern + r"((?:(?:,|,?\s+and)\s+`[^`]+`)+)")
CONTROL = "[Makefile](Makefile), `help` and `madeUpSymbol`"
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def fragments(path):
    """The names of a document's headings as the usual renderers make them."""
    headings = HEADING.findall(path.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def broken(document, text):
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    for target in LINK.findall(text):
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        path, _, fragment = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        if not file.exists():
            yield f"{document.relative_to(ROOT)}: {target}: there is no such file"
        elif fragment and file.suffix == ".md" and fragment not in fragments(file):
            yield f"{document.relative_to(ROOT)}: {target}: there is no such heading"
    for target, symbols in SYMBOLS.findall(text):
        file = document.parent / target
        if not file.is_file() or file.suffix == ".md":
            continue
        source = file.read_text(encoding="utf-8")
        for symbol in re.findall(r"`([^`]+)`", symbols):
            if not re.search(rf"(?<!\w){re.escape(symbol)}(?!\w)", source):
                yield f"{document.relative_to(ROOT)}: {target}: {symbol} doesn't stand there"


def main():
    documents = [path for folder in FOLDERS for path in sorted(ROOT.glob(f"{folder}/*.md"))]
    problems = [problem for document in documents for problem in broken(document, document.read_text(encoding="utf-8"))]
    if [*broken(ROOT / "control.md", CONTROL)] != ["control.md: Makefile: madeUpSymbol doesn't stand there"]:
        problems.append("control: the made-up symbol, and it alone, was to be found")
    for problem in problems:
        print(problem)
    print(f"check_links: {len(documents)} documents, {len(problems)} broken links or symbols")
    return 1 if problems or not documents else 0


if __name__ == "__main__":
    sys.exit(main())
