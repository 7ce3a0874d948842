"""How long a page of the list takes, and how large the file is, by the database's page size and the rows' size.

Builds the product's own schema (migrations/sqlite/) with inboxes of 60 notifications, written in turns as they would arrive, and reads
the newest 50 of random inboxes through SQLite alone: no HTTP, no JSON. Small inboxes keep the database's cache out of it:
every page is read from the system's cache. Prints a table in Markdown.
"""

import argparse
import os
import random
import re
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = "SELECT id, created_at, read_at, title, body, category, deep_link, data, data_aside, payload FROM notifications " \
    "WHERE inbox_id = ? ORDER BY id DESC LIMIT 50"


def build(path, page_size, body_bytes, inboxes, rows):
    """One file with `inboxes` times `rows` notifications. Gives its size in MiB."""
    file = sqlite3.connect(path, isolation_level=None)
    file.execute(f"PRAGMA page_size = {page_size}")
    file.execute("PRAGMA journal_mode = WAL")
    file.execute("PRAGMA synchronous = OFF")
    for migration in sorted((ROOT / "migrations/sqlite").glob("*.sql")):
        file.executescript(migration.read_text())
    body = "x" * body_bytes
    file.execute("BEGIN")
    file.executemany("INSERT INTO inboxes (id, app, user_id) VALUES (?, 'default', ?)",
                     ((one, f"user-{one}") for one in range(1, inboxes + 1)))
    number = 0
    for _ in range(rows):
        for inbox in range(1, inboxes + 1):
            number += 1
            file.execute("INSERT INTO notifications (inbox_id, id, created_at, title, body) VALUES (?, ?, ?, 'Title', ?)",
                         (inbox, number.to_bytes(16, "big"), number, body))
    file.execute("COMMIT")
    file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    file.close()
    return os.path.getsize(path) / 2**20


def read(path, inboxes, reads, chance):
    """The median of a page's microseconds, over `reads` random inboxes."""
    file = sqlite3.connect(path)
    file.execute("PRAGMA cache_size = -2048")
    taken = []
    for _ in range(reads):
        inbox = chance.randint(1, inboxes)
        start = time.perf_counter_ns()
        found = file.execute(PAGE, (inbox,)).fetchall()
        taken.append((time.perf_counter_ns() - start) / 1_000)
        assert len(found) == 50
    file.close()
    return statistics.median(taken)


def main():
    parser = argparse.ArgumentParser(description=re.sub(r"\s+", " ", __doc__))
    parser.add_argument("--inboxes", type=int, default=1_000)
    parser.add_argument("--reads", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    sizes, bodies = (4_096, 8_192, 16_384), (100, 1_000, 3_000)
    print("| body | " + " | ".join(f"{size // 1024} KiB pages: µs, MiB" for size in sizes) + " |")
    print("|---|" + "--:|" * len(sizes))
    for body in bodies:
        with tempfile.TemporaryDirectory(prefix="campanile-pages-") as folder:
            paths = {size: os.path.join(folder, f"{size}.sqlite") for size in sizes}
            files = {size: build(path, size, body, options.inboxes, 60) for size, path in paths.items()}
            taken = {size: [] for size in sizes}
            for round_ in range(options.rounds):
                for size in sizes:
                    taken[size].append(read(paths[size], options.inboxes, options.reads, random.Random(round_)))
            cells = (f"{statistics.median(taken[size]):.0f}, {files[size]:.0f}" for size in sizes)
            print(f"| {body / 1000:g} KB | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
