"""What the documentation shows."""
import pathlib
import re

PAGES = pathlib.Path(__file__).resolve().parent.parent / "docs" / "realtime-pages.md"


def documented(language: str, after: str) -> str:
    """The first block of code of a language behind a heading of docs/realtime-pages.md."""
    found = re.search(rf"^## {after}$.*?^```{language}\n(.*?)^```$", PAGES.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    if found is None:
        raise LookupError(f"docs/realtime-pages.md shows no {language} under {after!r}")
    return found.group(1)
