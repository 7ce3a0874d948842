"""axe-core, which finds faults of accessibility in a page, out of a pinned wheel that pip fetches once."""
import pathlib
import subprocess
import sys
import tempfile
import zipfile

from harness.children import HarnessError

WHEEL = "axe-playwright-python==0.1.8 --hash=sha256:fdd263c998388f1a8e67cad02677e612d946248bd44d163be5e8650ea31f95f8"
MEMBER = "axe_playwright_python/axe.min.js"
KEPT = pathlib.Path(__file__).resolve().parent.parent / ".build" / "axe-4.12.1.js"


def axe_source() -> str:
    """The text of axe's script. The first call fetches it."""
    if not KEPT.exists():
        KEPT.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=KEPT.parent) as folder:
            wanted, fetched = pathlib.Path(folder, "wanted.txt"), pathlib.Path(folder, "axe.js")
            wanted.write_text(WHEEL)
            command = ["download", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes", "--dest", folder, "-r", str(wanted)]
            if subprocess.run([sys.executable, "-m", "pip", *command]).returncode:
                raise HarnessError(f"pip fetched no axe-core: {WHEEL.split()[0]}")
            [wheel] = pathlib.Path(folder).glob("*.whl")
            fetched.write_bytes(zipfile.ZipFile(wheel).read(MEMBER))
            fetched.replace(KEPT)
    return KEPT.read_text(encoding="utf-8")
