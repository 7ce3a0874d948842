"""What the documentation shows."""
import re

from e2e import ROOT

BADGE, INBOX = "docs/realtime-pages.md", "docs/inbox-on-your-page.md"


def documented(language: str, after: str, page: str = BADGE) -> str:
    """The first block of code of a language behind a heading of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.search(rf"^#+ {after}$.*?^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    if found is None:
        raise LookupError(f"{page} shows no {language} under {after!r}")
    return found.group(1)
