"""Turbo 7.1.0 itself, and the example's page server, which takes it from a pinned wheel."""
import pathlib
import runpy
from typing import Any

SERVER = pathlib.Path(__file__).resolve().parent.parent / "examples/web/plain/serve.py"


def plain_example() -> dict[str, Any]:
    """What examples/web/plain/serve.py defines."""
    return runpy.run_path(str(SERVER))


def turbo_file() -> pathlib.Path:
    """The path of Turbo's UMD file. The first call fetches the wheel with pip."""
    path: pathlib.Path = plain_example()["turbo"]()
    return path
