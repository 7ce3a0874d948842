"""What comes out: one table, on the terminal and as a file."""

import os
import platform
import re
import shutil
import statistics
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from bench.load import Load


@dataclass
class Figures:
    """A figure's values, one a round."""

    values: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def text(self, digits: int = 2, unit: str = "") -> str:
        shown = [f"{value:,.{digits}f}" for value in (self.median, min(self.values), max(self.values))]
        return f"{shown[0]}{unit}" if len(self.values) == 1 else f"{shown[0]}{unit} ({shown[1]}–{shown[2]})"


def percentile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def rates(loads: list[Load]) -> Figures:
    return Figures([load.per_second for load in loads])


def ratios(one: list[Load], other: list[Load]) -> Figures:
    """Round by round, so that a slow moment of the machine, which hits both, cancels out."""
    return Figures([a.per_second / b.per_second for a, b in zip(one, other)])


def cpu_per_request(loads: list[Load]) -> Figures:
    return Figures([load.cpu_us for load in loads])


@dataclass
class Row:
    """One line of the table. `value` is judged by `at_least` or `at_most`; without either the line only informs."""

    measure: str
    ours: str
    reference: str
    value: Figures
    digits: int = 2
    unit: str = ""
    at_least: float | None = None
    at_most: float | None = None
    cpu: str = ""

    @property
    def passed(self) -> bool | None:
        if self.at_least is not None:
            return self.value.median >= self.at_least
        if self.at_most is not None:
            return self.value.median <= self.at_most
        return None

    def cells(self, judged: bool = True) -> list[str]:
        must = f"≥ {self.at_least:g}{self.unit}" if self.at_least is not None else \
               f"≤ {self.at_most:g}{self.unit}" if self.at_most is not None else "–"
        verdict = {True: "pass", False: "MISS", None: ""}[self.passed if judged else None]
        return [self.measure, self.ours, self.reference, self.value.text(self.digits, self.unit), must, verdict, self.cpu]


HEADINGS = ["measure", "campanile", "reference", "figure: median (range)", "must", "", "server CPU µs/request: campanile / reference"]


@dataclass
class Report:
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    headings: list[str] = field(default_factory=lambda: HEADINGS)

    def missed(self) -> list[Row]:
        return [row for row in self.rows if row.passed is False]

    def publish(self, title: str, facts: list[str], path: Path, judged: bool) -> int:
        """Prints the table and writes it to a file; the exit status of the whole run."""
        text = self.markdown(title, facts, judged)
        print(text)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return 1 if self.missed() and judged else 0

    def markdown(self, title: str, facts: list[str], judged: bool) -> str:
        lines = [self.headings] + [row.cells(judged) for row in self.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.headings))]
        def shown(line: list[str]) -> str:
            return "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |"
        table = [shown(self.headings), "|" + "|".join("-" * (width + 2) for width in widths) + "|"] + [shown(line) for line in lines[1:]]
        missed = self.missed()
        end = "This short run only shows that everything runs; its figures mean nothing." if not judged else \
              "Every figure that must hold holds." if not missed else \
              "Missed: " + "; ".join(row.measure for row in missed) + "."
        return "\n".join([f"# {title}", ""] + [f"- {fact}" for fact in facts] + [""] + table + [""]
                         + [f"- {note}" for note in self.notes] + ["", end, ""])


def machine_facts(folder: Path) -> list[str]:
    """What the figures depend on."""

    def first(path: str, pattern: str, otherwise: str = "unknown") -> str:
        try:
            found = re.search(pattern, Path(path).read_text(), re.MULTILINE)
        except OSError:
            return otherwise
        return found.group(1).strip() if found else otherwise

    memory = int(first("/proc/meminfo", r"^MemTotal:\s+(\d+)", "0")) / 2**20
    system = first("/etc/os-release", r'^PRETTY_NAME="(.*)"$')
    disk = subprocess.run(["df", "--output=fstype", str(folder)], capture_output=True, text=True).stdout.split()[-1:]
    libraries = [f"{name} {version}" for name, version in (("libmicrohttpd", _version("libmicrohttpd")), ("sqlite", _version("sqlite3")))]
    return [f"{os.cpu_count()} cores, {first('/proc/cpuinfo', r'^model name.*: (.*)$', platform.machine())}, {memory:.0f} GiB, "
            f"{system}, Linux {platform.release()}, file system {' '.join(disk) or 'unknown'}, {', '.join(libraries)}",
            f"load average at the start {os.getloadavg()[0]:.2f}"]


def _version(package: str) -> str:
    tool = shutil.which("pkg-config")
    done = subprocess.run([tool, "--modversion", package], capture_output=True, text=True) if tool else None
    return done.stdout.strip() if done and done.returncode == 0 else "(version unknown)"
