"""Turbo 7.1.0 itself, out of a pinned wheel; the example's page server, which fetches it; Rails' own client of ActionCable; and the names of
streams as turbo-rails signs them."""
import base64
import glob
import hashlib
import hmac
import json
import pathlib
import runpy
from typing import Any

from e2e import ROOT
from e2e.harness.children import HarnessError

PAGE_SERVER = ROOT / "examples/web/plain/serve.py"
# Names the style of Turbo 7.1.0's progress bar where Chromium says that it refused one: Turbo gives it no nonce, which a strict policy wants.
PROGRESS_BAR = "sha256-rql2tlBWA4Hb3HHbUfw797urk+ifBd6EAovoOUGt0oI="
ACTION_CABLE = "/usr/share/rubygems-integration/all/gems/actioncable-*/app/assets/javascripts/action*cable*.js"


def plain_example() -> dict[str, Any]:
    """The names that examples/web/plain/serve.py defines."""
    return runpy.run_path(str(PAGE_SERVER))


def turbo_file() -> pathlib.Path:
    """The path of Turbo's UMD file. The first call fetches the wheel with pip."""
    path: pathlib.Path = plain_example()["turbo"]()
    return path


def action_cable_file() -> pathlib.Path:
    """The path of @rails/actioncable, as Debian has it."""
    found = sorted(glob.glob(ACTION_CABLE))
    if not found:
        raise HarnessError("Rails' @rails/actioncable isn't there: apt-get install ruby-actioncable")
    return pathlib.Path(found[-1])


def signed_stream_name(key: str, name: str) -> str:
    """A stream's name as turbo-rails puts it into a page, signed with `signed_stream_verifier_key`."""
    content = base64.b64encode(json.dumps(name, ensure_ascii=False).encode()).decode()
    return f"{content}--{hmac.new(key.encode(), content.encode(), hashlib.sha256).hexdigest()}"
