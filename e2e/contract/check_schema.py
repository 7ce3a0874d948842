"""Compares docs/schema.sql with what migrations/sqlite/*.sql make: tables, columns in their order, checks, indexes and triggers. Comments
may differ, since a migration's stay as they were when it was released. And looks for each table of both stores in architecture.md's list."""
import glob
import os
import re
import sqlite3
import sys

from e2e import ROOT


def plain(sql):
    """Without comments, quoted names and differences of white space."""
    words = re.sub(r"--[^\n]*", " ", sql).replace('"', "")
    return re.sub(r"\s+", " ", words).strip()


def described(scripts):
    """What a database holds after the scripts: a line for each thing, by its name."""
    connection = sqlite3.connect(":memory:")
    for script in scripts:
        connection.executescript(script)
    found = {}
    for kind, name, sql in connection.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall():
        if name == "sqlite_sequence":
            continue
        if kind != "table":
            found[kind, name] = plain(sql)
            continue
        for column in connection.execute("SELECT name, type, \"notnull\", dflt_value, pk, hidden, cid FROM pragma_table_xinfo(?)", (name,)):
            found["column", f"{name}.{column[0]}"] = str(column[1:])
        found["table", name] = str(connection.execute(
            "SELECT wr, strict FROM pragma_table_list WHERE name = ?", (name,)).fetchone())
        found["references", name] = str(connection.execute(
            "SELECT \"table\", \"from\", \"to\", on_update, on_delete FROM pragma_foreign_key_list(?) ORDER BY 2", (name,)).fetchall())
        found["unique", name] = str(sorted(
            tuple(column for column, in connection.execute("SELECT name FROM pragma_index_info(?)", (index,)))
            for index, in connection.execute("SELECT name FROM pragma_index_list(?) WHERE origin = 'u'", (name,)).fetchall()))
        found["checks", name] = str(sorted(re.findall(r"CHECK \((?:[^()]|\([^()]*\))*\)", plain(sql))))
        found["autoincrement", name] = str("AUTOINCREMENT" in sql)
    return found


def differences(documented, real):
    return [f"{' '.join(key)}: docs/schema.sql has {documented.get(key, 'nothing')}, the migrations make {real.get(key, 'nothing')}"
            for key in sorted(documented.keys() | real.keys()) if documented.get(key) != real.get(key)]


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def tables_of_postgres():
    """Those that the migrations make, and those that the program makes: for its migrations and for a move."""
    paths = glob.glob(os.path.join(ROOT, "migrations", "postgres", "*.sql"))
    sources = [os.path.join(ROOT, "Sources", *path) for path in (
        ("SQLEngine", "Postgres", "PostgresMigrator.swift"), ("CampanileServer", "Store", "Move", "MoveTarget.swift"))]
    return {name for path in paths + sources for name in re.findall(r"^ *CREATE TABLE (?:IF NOT EXISTS )?(\w+)", read(path), re.MULTILINE)}


def mislisted(sqlite, postgres, page):
    """What the page's list of tables lacks, has besides, or says of the wrong store."""
    wrong, stores = [], {"SQLite": sqlite - postgres, "PostgreSQL": postgres - sqlite, "": sqlite & postgres}
    listed = {}
    for names, mark in re.findall(r"^\| (`[^|]*) \| (?:(SQLite|PostgreSQL): )?", page.split("## The tables")[1].split("\n## ")[0], re.MULTILINE):
        listed |= dict.fromkeys(re.findall(r"`(\w+)`", names), mark)
    for mark, names in stores.items():
        wrong += [f"docs/architecture.md lists no table {name} of {mark or 'both stores'}" for name in sorted(names) if listed.get(name) != mark]
    return wrong + [f"docs/architecture.md lists {name}, which is no table" for name in sorted(set(listed) - sqlite - postgres)]


def main():
    migrations = [read(path) for path in sorted(glob.glob(os.path.join(ROOT, "migrations", "sqlite", "*.sql")))]
    text = read(os.path.join(ROOT, "docs", "schema.sql"))
    real = described(migrations)
    wrong = differences(described([text]), real)
    # The check itself: each of these has to be seen.
    for before, after in ((" version ", " versions "), ("WHERE due_at IS NOT NULL AND lease = 0", ""), ("'withheld')", "'held')"),
                          (" STRICT,", ""), ("    badge_attempts     INTEGER NOT NULL DEFAULT 0,\n", "")):
        if before not in text or not differences(described([text.replace(before, after, 1)]), real):
            wrong.append(f"control: {before.strip()!r} for {after.strip()!r} was not seen")
    tables = {name for kind, name in real if kind == "table"}, tables_of_postgres()
    page = read(os.path.join(ROOT, "docs", "architecture.md"))
    wrong += mislisted(*tables, page)
    for before, after, seen in (("| `events` |", "| `event` |", 2), ("| `write_proofs` | PostgreSQL:", "| `write_proofs` |", 1),
                                ("| `left_tokens` |", "| `left_tokens` | SQLite:", 1)):
        if before not in page or len(mislisted(*tables, page.replace(before, after))) != seen:
            wrong.append(f"control: {after.strip()!r} in architecture.md was not seen")
    for line in wrong:
        print(line)
    print(f"check_schema: {len(real)} things compared, {len(wrong)} wrong")
    return 1 if wrong or not migrations else 0


if __name__ == "__main__":
    sys.exit(main())
