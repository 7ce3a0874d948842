"""What the scripts of contract/, trust/, browser/ and bench/ share: programs as children, a real campanile process and its
connections, the simulator of Apple and Google, reports; and, imported by their own names, Chromium (`chromium`), Turbo and Rails' client
(`hotwire`), PostgreSQL (`postgres`), where a server keeps its data (`stores`), nginx (`nginx`), networks whose lines can be cut (`network`)
and a cluster (`cluster`).

All but `e2e.harness.chromium` needs nothing but the standard library of Python 3.11, as in Debian 12.
"""
from e2e.harness.campanile import (
    JWT_SECRET,
    METRICS_TOKEN,
    REQUEST_SECONDS,
    START_SECONDS,
    STOP_SECONDS,
    Answer,
    Campanile,
    Connection,
    servers,
    serving,
    user_token,
)
from e2e.harness.children import HarnessError, c_compiler, children, die_with_parent, free_port, leave_when_told, temporary_folder
from e2e.harness.report import Report, arguments, begin, run
from e2e.harness.simulator import Simulator

__all__ = [
    "JWT_SECRET", "METRICS_TOKEN", "REQUEST_SECONDS", "START_SECONDS", "STOP_SECONDS", "Answer", "Campanile", "Connection", "HarnessError",
    "Report", "Simulator", "arguments", "begin", "c_compiler", "children", "die_with_parent", "free_port", "leave_when_told", "run", "servers",
    "serving", "temporary_folder", "user_token",
]
