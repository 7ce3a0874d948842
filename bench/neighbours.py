"""What one client's big thing does to the others: how long they wait for a badge, a durable create, an event or a ping, idle,
beside as many connections that read one page each, and beside the big thing. In turns, so that the machine's moods hit all three.

Ends with 1 when a figure misses what it must be, with 2 when something doesn't work. See README.md.
"""

import argparse
import sys
import time
from pathlib import Path

from bench.load import HERE
from bench.neighbour_jobs import JOBS
from bench.neighbour_measures import ASKED_PER_SECOND, CHANGES_PER_SECOND, HEADINGS, Bench
from bench.neighbour_measures import MEASURES as BIG_REQUESTS
from bench.neighbour_pages import MEASURES as PAGES
from bench.processes import run
from bench.table import Figures, Report, machine_facts

PROJECT = HERE.parent
MEASURES = BIG_REQUESTS | PAGES | JOBS
# Name, usual and short value, and what it is.
SIZES = [("rows", 420_000, 2_100, "rows of a large inbox"),
         ("rounds", 5, 1, "rounds of what is asked"),
         ("seconds", 4, 0.3, "seconds of a phase of it"),
         ("marks", 3, 1, "rounds of mark-all"),
         ("after", 6, 0.5, "seconds of a phase of it"),
         ("listens", 3, 1, "rounds of what is listened to"),
         ("listen", 8, 0.4, "seconds of a phase of it"),
         ("lead", 0.5, 0.1, "seconds of what goes on beside, before the others are looked at"),
         ("patience", 30, 2, "seconds that an event may take to come"),
         ("cables", 50, 4, "cables of one user"),
         ("visitors", 200, 8, "visitors' cables"),
         ("subscriptions", 100, 10, "subscriptions tried on each"),
         ("streams", 50, 10, "event streams of one user")]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, help="campanile's program (default: .build/release/campanile, with --short .build/debug)")
    parser.add_argument("--only", action="append", choices=sorted(MEASURES), metavar="NAME", help=f"only this measure; may be repeated: {', '.join(MEASURES)}")
    for name, usual, _, words in SIZES:
        parser.add_argument(f"--{name}", type=type(usual), help=f"{words} (default {usual:,})")
    parser.add_argument("--short", action="store_true", help="small and quick: shows that everything runs; no figure is judged")
    parser.add_argument("--results", type=Path, default=HERE / "results-neighbours.md", help="where the table is written (default bench/results-neighbours.md)")
    parser.add_argument("--work", type=Path, default=PROJECT / ".build", help="databases are made in a folder in here, and removed (default .build)")
    parser.add_argument("--log", type=Path, help="append the server's log lines to this file (default: they are thrown away)")
    options = parser.parse_args()
    for name, usual, short, _ in SIZES:
        if getattr(options, name) is None:
            setattr(options, name, short if options.short else usual)
    return options


def measure(options: argparse.Namespace, folder: Path) -> int:
    started, facts, report = time.monotonic(), machine_facts(folder), Report(headings=HEADINGS)
    bench = Bench(options, folder, report)
    for name in options.only or MEASURES:
        print(f"neighbours: {name} …", file=sys.stderr, flush=True)
        MEASURES[name](bench)
    facts.append(f"{options.rounds} rounds, {options.marks} of mark-all, {options.listens} of streams; others ask for {ASKED_PER_SECOND} badges and "
                 f"{ASKED_PER_SECOND} creates a second, or are told {CHANGES_PER_SECOND} changes a second; whole run {time.monotonic() - started:.0f} s")
    if bench.probes:
        report.notes.append(f"fdatasync probe a round, p50: {Figures(bench.probes).text(2, ' ms')}; the measuring program was late by "
                            f"{Figures(bench.late).text(1, ' ms')} at its worst in a phase, which isn't counted as waiting")
    if bench.loads:
        share = Figures([load.others_share for load in bench.loads])
        report.notes.append(f"all programs but the server and wrk used {share.text(2)} of a processor beside a load, this one among them"
                            + (": repeat this on a quiet machine" if share.median > 0.4 else ""))
    return report.publish("Benchmark of neighbours", facts, options.results, judged=not options.short)


def main() -> int:
    return run("neighbours", arguments(), measure, ("wrk", "wrk"))


if __name__ == "__main__":
    sys.exit(main())
