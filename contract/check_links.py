"""Checks that every relative link of the Markdown documents leads to a file, and its #fragment to a heading.

Prints a line a broken link; exit code 1 if there is one.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = (".", "docs", "docs/adr", "bench", "contract", "trust", "examples/*", "clients/*")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def fragments(path):
    """The names of a document's headings as the usual renderers make them."""
    headings = HEADING.findall(path.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def broken(document):
    for target in LINK.findall(re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)):
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        path, _, fragment = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        if not file.exists():
            yield f"{document.relative_to(ROOT)}: {target}: there is no such file"
        elif fragment and file.suffix == ".md" and fragment not in fragments(file):
            yield f"{document.relative_to(ROOT)}: {target}: there is no such heading"


def main():
    documents = [path for folder in FOLDERS for path in sorted(ROOT.glob(f"{folder}/*.md"))]
    problems = [problem for document in documents for problem in broken(document)]
    for problem in problems:
        print(problem)
    print(f"check_links: {len(documents)} documents, {len(problems)} broken links")
    return 1 if problems or not documents else 0


if __name__ == "__main__":
    sys.exit(main())
