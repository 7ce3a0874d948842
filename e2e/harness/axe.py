"""axe-core, which finds faults of accessibility in a page, out of a pinned wheel that pip fetches once."""
import pathlib

from e2e import ROOT
from e2e.harness.hotwire import plain_example

WHEEL = "axe-playwright-python==0.1.8 --hash=sha256:fdd263c998388f1a8e67cad02677e612d946248bd44d163be5e8650ea31f95f8"
KEPT = ROOT / ".build" / "axe-4.12.1.js"


def axe_source() -> str:
    """The text of axe's script. The first call fetches it."""
    path: pathlib.Path = plain_example()["out_of_wheel"](WHEEL, "axe_playwright_python/axe.min.js", KEPT)
    return path.read_text(encoding="utf-8")
