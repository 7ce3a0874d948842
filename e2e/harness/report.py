"""Options and findings of a script."""
import argparse
import os
import random
import sys
from collections.abc import Callable, Iterable
from typing import NoReturn

from e2e.harness.children import HarnessError, leave_when_told


def arguments(description: str | None, *, short: str) -> argparse.ArgumentParser:
    """The arguments that all scripts of trust/ share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--binary", required=True, help="the campanile program to test")
    parser.add_argument("--seed", type=int, default=None, help="repeats the random choices of a run (printed)")
    parser.add_argument("--short", action="store_true", help=short)
    return parser


def begin(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Parses, prints the seed, and makes the script leave nothing behind when it is interrupted."""
    options = parser.parse_args()
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1 << 32)
    if not os.access(options.binary, os.X_OK):
        parser.error(f"{options.binary} is not a program; build it first")
    leave_when_told()
    print(f"{os.path.basename(sys.argv[0])}: seed {options.seed}", flush=True)
    return options


def run(main: Callable[[], int]) -> NoReturn:
    """A script from its begin to its exit status: 1 also for what keeps it from going on."""
    try:
        sys.exit(main())
    except HarnessError as trouble:
        print(f"{os.path.splitext(os.path.basename(sys.argv[0]))[0]}: WRONG: {trouble}")
        sys.exit(1)


class Report:
    """What a run found. `wrong` keeps the kinds of findings apart, so that a control can say which check saw it."""

    def __init__(self) -> None:
        self.checked: dict[str, int] = {}
        self.wrong: list[tuple[str, str]] = []

    def count(self, kind: str, number: int = 1) -> None:
        self.checked[kind] = self.checked.get(kind, 0) + number

    def check(self, kind: str, holds: bool, what: str | Callable[[], str]) -> bool:
        """`what` is a text or a function that gives one; it is asked for only if the check failed."""
        self.count(kind)
        if not holds:
            self.wrong.append((kind, what() if callable(what) else what))
        return holds

    def kinds(self) -> set[str]:
        return {kind for kind, _ in self.wrong}

    def print_wrong(self, limit: int = 20) -> None:
        for kind, what in self.wrong[:limit]:
            print(f"  WRONG ({kind}): {what}", flush=True)
        if len(self.wrong) > limit:
            print(f"  … and {len(self.wrong) - limit} more", flush=True)

    def verdict(self, unseen: Iterable[str] = ()) -> int:
        """Prints what was wrong, and the checks that didn't see the faults planted for them; the exit status of the whole."""
        self.print_wrong()
        unseen = list(unseen)
        for kind in unseen:
            print(f"  WRONG (control): with planted faults the check '{kind}' did not fail")
        return 1 if self.wrong or unseen else 0
