"""What retention does to the others: a million notifications that have had their time are deleted while 300 requests a second go on.

A server without retention is asked first, for what the same requests take alone; then one that deletes what is older than 30 days,
until all of it is gone; then the same server afterwards. A third of the requests each are badges, pages of 50 and durable creates. Every
tenth inbox that is emptied has a phone that was told the number, so syncs and clearings go, to the sandbox. `campanile badge audit` must
find every count right before and afterwards.

Ends with 1 when a figure misses what it must be, with 2 when something doesn't work. See README.md.
"""

import argparse
import contextlib
import re
import secrets
import sqlite3
import sys
import time
from pathlib import Path

from bench import neighbour_probes as probes
from bench.load import HERE, BenchError
from bench.neighbour_probes import Found
from bench.neighbour_scene import Scene
from bench.processes import run
from bench.seed import fill_inboxes
from bench.table import Figures, Report, Row, machine_facts, percentile

PROJECT = HERE.parent
PER_SECOND = 100            # of each of the three kinds
DAY = 24 * 3_600_000
SLICE_SECONDS = 5
HOLD_MS = 20
SETTING = {"CAMPANILE_RETENTION_NOTIFICATIONS": "30d"}
DONE = re.compile(r"What had its time was deleted")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, help="campanile's program (default: .build/release/campanile, with --short .build/debug)")
    parser.add_argument("--entries", type=int, help="notifications to delete (default 1,000,000)")
    parser.add_argument("--inboxes", type=int, help="that they are in (default 10,000)")
    parser.add_argument("--seconds", type=int, help="of the phases without retention (default 60)")
    parser.add_argument("--short", action="store_true", help="small and quick: shows that everything runs; no figure is judged")
    parser.add_argument("--results", type=Path, default=HERE / "results-retention.md", help="where the table is written (default bench/results-retention.md)")
    parser.add_argument("--work", type=Path, default=PROJECT / ".build", help="the database is made in a folder in here, and removed (default .build)")
    options = parser.parse_args()
    for name, usual, short in (("entries", 1_000_000, 10_000), ("inboxes", 10_000, 100), ("seconds", 60, 5)):
        if getattr(options, name) is None:
            setattr(options, name, short if options.short else usual)
    return options


def fill(scene: Scene, entries: int, inboxes: int) -> None:
    """Old notifications, a third of them unread, and phones that were told so."""
    each = entries // inboxes
    fill_inboxes(scene.database, {f"user-{number:06d}": (each, each // 3) for number in range(inboxes)}, age=60 * DAY)
    now = int(time.time() * 1000)
    with contextlib.closing(sqlite3.connect(scene.database)) as db, db:
        owners = db.execute("SELECT id, unread_count FROM inboxes WHERE user_id LIKE 'user-%0'").fetchall()
        db.executemany(
            "INSERT INTO device_tokens (app, token, inbox_id, platform, provider, environment, created_at, last_registered_at, told_count,"
            " told_at, attempted) VALUES ('default', ?, ?, 'ios', 'apns', 'production', ?, ?, ?, ?, 1)",
            ((secrets.token_hex(32), inbox, now, now, unread, now) for inbox, unread in owners))


def left(scene: Scene) -> int:
    with contextlib.closing(sqlite3.connect(f"file:{scene.database}?mode=ro", uri=True)) as db:
        bound = (int(time.time() * 1000) - 30 * DAY).to_bytes(6, "big")
        return db.execute("SELECT count(*) FROM notifications WHERE id < ?", (bound,)).fetchone()[0]


def start(scene: Scene, settings: dict[str, str]) -> None:
    scene.programs.environment.update(settings)
    scene.server = scene.programs.campanile(scene.database)


class Phase:
    """What the requests took, in milliseconds by their kind."""

    def __init__(self, scene: Scene):
        self.scene, self.waits, self.late = scene, {}, 0.0
        self.kinds = {
            "GET /badge": [scene.request("GET", "/badge", user) for user in scene.others],
            "GET /notifications": [scene.request("GET", "/notifications?limit=50", user) for user in scene.others],
            "POST /notifications": [scene.create(user_id=user) for user in scene.others]}

    def ask(self, seconds: float) -> None:
        found: Found = probes.ask(self.scene.server.port, self.kinds, PER_SECOND, seconds, contextlib.nullcontext())
        self.late = max(self.late, found.late)
        for name, values in found.waits.items():
            self.waits.setdefault(name, []).extend(values)

    def share(self, name: str, share: float) -> float:
        return percentile(sorted(self.waits[name]), share)

    def text(self, name: str) -> str:
        return f"p50 {self.share(name, 0.5):.2f}, p99 {self.share(name, 0.99):.2f}, worst {max(self.waits[name]):.1f} ms"


def beside(scene: Scene, log: Path, at_most_seconds: float) -> tuple[Phase, float, int, dict[str, float]]:
    """Asks until retention has told that it is done: how long that took, the log's greatest size in MiB, and what it told."""
    phase, size, began = Phase(scene), 0, time.monotonic()
    seen = log.stat().st_size
    start(scene, SETTING)
    while True:
        phase.ask(SLICE_SECONDS)
        size = max(size, Path(f"{scene.database}-wal").stat().st_size)
        with open(log, encoding="utf-8") as file:
            file.seek(seen)
            told = next((line for line in file if DONE.search(line)), None)
        if told:
            break
        if time.monotonic() - began > at_most_seconds:
            raise BenchError(f"retention isn't done after {at_most_seconds:.0f} s: {left(scene):,} are left")
    figures = {name: float(value) for name, value in re.findall(r'"?(notifications|transaction_ms_p99|transaction_ms_longest)"?[=:]"?([\d.]+)', told)}
    return phase, time.monotonic() - began, size >> 20, figures


def measure(options: argparse.Namespace, folder: Path) -> int:
    facts, report = machine_facts(folder), Report(headings=["measure", "beside retention", "alone: before; afterwards", "figure", "must", "", ""])
    log = folder / "log"
    log.touch()
    scene = Scene(options.binary, folder, log, {"owner": (1, 0)}, {})
    print(f"retention: {options.entries:,} notifications are written …", file=sys.stderr, flush=True)
    fill(scene, options.entries, options.inboxes)
    with scene:
        print("retention: alone …", file=sys.stderr, flush=True)
        scene.server.wait_until_quiet()
        alone = Phase(scene)
        alone.ask(options.seconds)
        scene.server.stop()
        print("retention: beside it …", file=sys.stderr, flush=True)
        during, took, log_mib, told = beside(scene, log, at_most_seconds=60 + options.entries / 500)
        print("retention: afterwards …", file=sys.stderr, flush=True)
        scene.server.wait_until_quiet()
        after = Phase(scene)
        after.ask(options.seconds)
        rest, deleted = left(scene), int(told["notifications"])
    if rest or deleted != options.entries:
        raise BenchError(f"{deleted:,} of {options.entries:,} were deleted, {rest:,} are left")
    for name in alone.waits:
        bound = 2 * min(alone.share(name, 0.99), after.share(name, 0.99)) + 10   # the quieter of the two
        report.rows.append(Row(
            f"{name}, p99", during.text(name), f"{alone.text(name)}; {after.text(name)}", Figures([during.share(name, 0.99)]), unit=" ms",
            at_most=round(bound, 1)))
    report.rows.append(Row("a transaction's statements, p99", f"longest {told['transaction_ms_longest']:.1f} ms", "",
                           Figures([told["transaction_ms_p99"]]), unit=" ms", at_most=HOLD_MS))
    report.rows.append(Row("deleted a second", f"{deleted:,} in {took:.0f} s", "", Figures([deleted / took]), digits=0))
    facts.append(f"{options.entries:,} notifications of {options.inboxes:,} inboxes, a third unread, {options.inboxes // 10:,} phones; "
                 f"{3 * PER_SECOND} requests a second")
    report.notes.append(f"the write-ahead log grew to {log_mib} MiB; the measuring program was late by "
                        f"{max(alone.late, during.late, after.late):.1f} ms at its worst, which isn't counted as waiting")
    report.notes.append("every badge equals its recount, before and afterwards")
    return report.publish("Benchmark of retention", facts, options.results, judged=not options.short)


def main() -> int:
    return run("retention", arguments(), measure)


if __name__ == "__main__":
    sys.exit(main())
