#!/usr/bin/env python3
"""Runs targets of make side by side, and says of each how long it took, now and the last time.

    scripts/steps.py test 'swift-tests lint' 'browser test-docs' 'trust-short'

Each argument after the run's name is a lane: targets that run one after the other, beside the other lanes. What a target prints goes to
.build/steps/TARGET.log, and is shown when it has ended. After a failure no target is begun, those that run come to their end, and the
failed target's log is shown last. With --go-on every target runs, whatever fails, and the end says what failed. With --limit a target
that takes longer is ended, and has failed: its log says what it did last.

.build/durations keeps the seconds that each target took when it last passed. “Of processors” is the time of all processors that the
target's programs used: a target that waits uses little.
"""
import argparse
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LOGS, DURATIONS = ROOT / ".build/steps", ROOT / ".build/durations"


def in_words(seconds):
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds // 60:.0f} min {seconds % 60:02.0f} s"


class Durations:
    """The seconds of each target's last run that passed, a line each: TARGET SECONDS."""

    def __init__(self):
        lines = DURATIONS.read_text(encoding="utf-8").splitlines() if DURATIONS.exists() else []
        self.seconds = {name: float(seconds) for name, seconds in (line.split() for line in lines)}

    def last_time(self, target):
        return f"{in_words(self.seconds[target])} the last time" if target in self.seconds else "no last time"

    def note(self, target, seconds):
        self.seconds[target] = seconds
        new = DURATIONS.with_suffix(".new")
        new.write_text("".join(f"{name} {value:.1f}\n" for name, value in sorted(self.seconds.items())), encoding="utf-8")
        new.replace(DURATIONS)


class Run:
    def __init__(self, options):
        self.name, self.make, self.goes_on, self.limit = options.name, options.make, options.go_on, options.limit
        self.lanes = [lane.split() for lane in options.lanes]
        self.durations, self.lock = Durations(), threading.Lock()
        self.processes, self.took, self.failed = {}, {}, []
        self.is_ending = self.is_interrupted = False

    def say(self, text):
        print(f"==> {self.name}: {text}", flush=True)

    def lane(self, targets):
        for target in targets:
            with self.lock:
                if self.is_ending:
                    return
                log = open(LOGS / f"{target}.log", "wb")
                # A session of its own, so that a signal reaches all that it started.
                self.processes[target] = process = subprocess.Popen(
                    [self.make, "--no-print-directory", target], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log,
                    stderr=subprocess.STDOUT, start_new_session=True)
                log.close()
                beside = ", ".join(other for other in self.processes if other != target)
                self.say(f"{target} begins ({self.durations.last_time(target)})" + (f", beside {beside}" if beside else ""))
            began, hung = time.monotonic(), threading.Timer(self.limit * 60, self.give_up, (target, process.pid))
            hung.daemon = True
            hung.start()
            _, status, usage = os.wait4(process.pid, 0)
            hung.cancel()
            with self.lock:
                process.returncode = os.waitstatus_to_exitcode(status)
                del self.processes[target]
                self.end(target, process.returncode, time.monotonic() - began, usage.ru_utime + usage.ru_stime)

    def give_up(self, target, pid):
        self.say(f"{target} is ended after {self.limit} minutes")
        os.killpg(pid, signal.SIGTERM)

    def end(self, target, code, seconds, used):
        self.took[target] = seconds
        words = f"{in_words(seconds)}, {in_words(used)} of processors; {self.durations.last_time(target)}"
        if code == 0:
            self.show(target)
            self.say(f"{target} passed ({words})")
            self.durations.note(target, seconds)
        elif self.is_interrupted:
            self.say(f"{target} was interrupted")
        else:
            self.failed.append(target)
            self.is_ending = self.is_ending or not self.goes_on
            self.say(f"{target} FAILED ({words})" + ("" if self.goes_on else "; its log comes at the end"))
            if self.goes_on:
                self.show(target)

    def show(self, target):
        sys.stdout.flush()
        sys.stdout.buffer.write((LOGS / f"{target}.log").read_bytes())
        sys.stdout.flush()

    def interrupt(self, number, _):
        self.is_ending = self.is_interrupted = True
        for process in list(self.processes.values()):
            os.killpg(process.pid, signal.SIGTERM)

    def run(self):
        LOGS.mkdir(parents=True, exist_ok=True)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self.interrupt)
        began = time.monotonic()
        threads = [threading.Thread(target=self.lane, args=(lane,)) for lane in self.lanes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self.verdict(time.monotonic() - began)

    def verdict(self, seconds):
        if not self.goes_on:
            for target in self.failed:
                self.show(target)
        width = max(map(len, self.took), default=0)
        for target, took in sorted(self.took.items(), key=lambda one: -one[1]):
            print(f"    {target:{width}}  {in_words(took)}{'  FAILED' if target in self.failed else ''}")
        left_out = [target for lane in self.lanes for target in lane if target not in self.took]
        if left_out:
            self.say(f"not run: {' '.join(left_out)}")
        if self.failed or self.is_interrupted or left_out:
            why = f"{', '.join(self.failed)} failed" if self.failed else "interrupted" if self.is_interrupted else "not everything ran"
            self.say(f"{why} ({in_words(seconds)})")
            return 1
        self.say(f"everything passed ({in_words(seconds)})")
        return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="what the lines begin with")
    parser.add_argument("lanes", nargs="+", help="targets that run one after the other, in one word")
    parser.add_argument("--make", default="make", help="the command make (default make)")
    parser.add_argument("--limit", type=int, default=24 * 60, help="minutes that a target may take (default a day)")
    parser.add_argument("--go-on", action="store_true", help="run every target, whatever fails")
    return Run(parser.parse_args()).run()


if __name__ == "__main__":
    sys.exit(main())
