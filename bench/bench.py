"""Campanile against the floor: a bare C program on the same two libraries (floor.c).

Rounds are interleaved, so that the machine's moods hit both alike; a figure is the median of the rounds' ratios, with its
range, beside what it must be. Ends with 1 when a figure misses it, with 2 when something doesn't work. See README.md.
"""

import argparse
import os
import sys
import time
from pathlib import Path

from bench.load import HERE
from bench.measures import MEASURES, Bench, Plan
from bench.processes import Programs, run
from bench.table import Report, machine_facts

PROJECT = HERE.parent


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, help="campanile's program (default: .build/release/campanile, with --short .build/debug)")
    parser.add_argument("--only", action="append", choices=sorted(MEASURES), metavar="NAME", help=f"only this measure; may be repeated: {', '.join(MEASURES)}")
    parser.add_argument("--rounds", type=int, help="rounds of every measure (default 7)")
    parser.add_argument("--seconds", type=int, help="seconds of load in a round (default 4)")
    parser.add_argument("--rows", type=int, help="growth: rows of the large database (default 1,000,000)")
    parser.add_argument("--short", action="store_true", help="small and quick: shows that everything runs; no figure is judged")
    parser.add_argument("--no-pin", action="store_true", help="don't give wrk a processor of its own")
    parser.add_argument("--results", type=Path, default=HERE / "results.md", help="where the table is written (default bench/results.md)")
    parser.add_argument("--work", type=Path, default=PROJECT / ".build", help="databases are made in a folder in here, and removed (default .build)")
    parser.add_argument("--log", type=Path, help="append the servers' log lines to this file (default: they are thrown away)")
    return parser.parse_args()


def plan(options: argparse.Namespace, client_cpus: set[int] | None) -> Plan:
    if options.short:
        return Plan(options.rounds or 1, options.rounds or 1, options.seconds or 1, users=50, rows=60, small_inboxes=50,
                    large_inboxes=(options.rows or 5000) // 10, tokens=50, starts=2, tabs=20, client_cpus=client_cpus)
    rounds = options.rounds or 7
    return Plan(rounds, rounds, options.seconds or 4, users=1000, rows=60, small_inboxes=1000,
                large_inboxes=(options.rows or 1_000_000) // 10, tokens=4000, starts=10, tabs=201, client_cpus=client_cpus)


def processors(pin: bool) -> tuple[set[int] | None, set[int] | None]:
    """The servers' processors and wrk's: the last one is wrk's alone, so that the client can't slow the server it measures,
    and the server is what is saturated."""
    available = sorted(os.sched_getaffinity(0))
    if not pin or len(available) < 2:
        return None, None
    return set(available[:-1]), {available[-1]}


def measure(options: argparse.Namespace, folder: Path) -> int:
    started = time.monotonic()
    facts = machine_facts(folder)
    server_cpus, client_cpus = processors(not options.no_pin)
    programs = Programs(options.binary.resolve(), folder, server_cpus, options.log and options.log.resolve())
    programs.build_floor()   # what is missing for it is said before anything is measured
    sizes, report = plan(options, client_cpus), Report()
    bench = Bench(programs, sizes, report)
    for name in options.only or MEASURES:
        print(f"bench: {name} …", file=sys.stderr, flush=True)
        MEASURES[name](bench)
    facts.append(f"{sizes.rounds} rounds of {sizes.seconds} s; " + (
        f"servers on processors {sorted(server_cpus)}, wrk alone on {sorted(client_cpus)}" if server_cpus else "processors shared with wrk"))
    facts.append(f"campanile's log lines {'go to a file' if options.log else 'are written, to /dev/null'}; user tokens are HS256; "
                 f"whole run {time.monotonic() - started:.0f} s")
    if bench.loads:
        client, others = max(load.client_share for load in bench.loads), sorted(load.others_share for load in bench.loads)
        report.notes.append(f"wrk used at most {client:.0%} of its processor" + (": it may have been the bottleneck" if client > 0.9 else ""))
        report.notes.append(f"other programs used {others[len(others) // 2]:.0%} of a processor during the median round, {others[-1]:.0%} at most"
                            + (": repeat this on a quiet machine" if others[len(others) // 2] > 0.15 else ""))
    return report.publish("Benchmark", facts, options.results, judged=not options.short)


def main() -> int:
    return run("bench", arguments(), measure, ("wrk", "wrk"), ("strip", "binutils"))


if __name__ == "__main__":
    sys.exit(main())
