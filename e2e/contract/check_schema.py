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


def unlisted(tables, page):
    """The tables that the page's list doesn't have."""
    listed = set(re.findall(r"`(\w+)`", "\n".join(re.findall(r"^\| (`[^|]*) \|", page.split("## The tables")[1], re.MULTILINE))))
    return [f"docs/architecture.md lists no table {name}" for name in sorted(tables - listed)]


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
    tables = {name for kind, name in real if kind == "table"}
    for path in glob.glob(os.path.join(ROOT, "migrations", "postgres", "*.sql")):
        tables |= set(re.findall(r"^CREATE TABLE (\w+)", read(path), re.MULTILINE))
    page = read(os.path.join(ROOT, "docs", "architecture.md"))
    wrong += unlisted(tables, page)
    if not unlisted(tables, page.replace("| `events` |", "| `event` |")):
        wrong.append("control: a table that architecture.md doesn't list was not seen")
    for line in wrong:
        print(line)
    print(f"check_schema: {len(real)} things compared, {len(wrong)} wrong")
    return 1 if wrong or not migrations else 0


if __name__ == "__main__":
    sys.exit(main())
