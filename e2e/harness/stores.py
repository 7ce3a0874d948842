"""Where a script's servers keep their data: in a SQLite file, or with TEST_STORE=postgres in the environment in databases on a
PostgreSQL server of the script's own, which is started when the first is asked for and gone when the script ends.

A database is known by what the program is given, a path or an address. The questions that scripts ask it directly are one SQL for both
stores; what the two say differently, `hexadecimal` says.
"""
import atexit
import contextlib
import functools
import itertools
import os
import sqlite3
import time
from collections.abc import Iterator

from e2e.harness.children import HarnessError
from e2e.harness.postgres import PASSWORD, ROLE, PostgreSQL, server_folder

LEFT_SECONDS = 30

_numbers = itertools.count(1)


def is_postgres() -> bool:
    """Whether new databases are PostgreSQL's."""
    wanted = os.environ.get("TEST_STORE") or "sqlite"
    if wanted not in ("sqlite", "postgres"):
        raise HarnessError(f"TEST_STORE is {wanted}; it may be sqlite or postgres")
    return wanted == "postgres"


def new_database(folder: str, name: str = "campanile") -> str:
    """An empty database: a file of that name in the folder, which the program makes, or one on the server. From the main thread, with
    which the server dies."""
    if not is_postgres():
        return os.path.join(folder, f"{name}.sqlite")
    server, database = _server(), f"{name}_{next(_numbers)}".replace("-", "_")
    server.execute(f"CREATE DATABASE {database} OWNER {ROLE}")
    return f"postgres://{ROLE}@{server.host}:{server.port}/{database}"


def environment(database: str) -> dict[str, str]:
    """What a program needs in its environment besides the address."""
    return {"PGPASSWORD": PASSWORD} if _is_address(database) else {}


@functools.cache
def _server() -> PostgreSQL:
    stack = contextlib.ExitStack()
    server = PostgreSQL(stack.enter_context(server_folder("campanile-postgres-")))
    stack.callback(server.stop, "immediate")
    atexit.register(stack.close)
    server.create()
    print(f"on PostgreSQL {server.value('SHOW server_version')}", flush=True)
    return server


def _is_address(database: str) -> bool:
    return database.startswith("postgres://")


def _name(address: str) -> str:
    return address.rpartition("/")[2]


# --- questions

def rows(database: str, sql: str) -> list[list[str]]:
    """The rows of a query, as texts on both stores; NULL is the empty text."""
    if _is_address(database):
        return _server().rows(sql, _name(database))
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=10)) as file:
        return [["" if value is None else str(value) for value in row] for row in file.execute(sql)]


def value(database: str, sql: str) -> str:
    return rows(database, sql)[0][0]


def hexadecimal(database: str, column: str) -> str:
    """The expression for an id as 32 hexadecimal digits: SQLite has bytes there, PostgreSQL a uuid."""
    return f"replace({column}::text, '-', '')" if _is_address(database) else f"lower(hex({column}))"


def wait_until_left(database: str) -> None:
    """After all programs on it were killed: until nothing that they had begun is committed any more. The sessions of PostgreSQL finish
    what had reached them before they see that nobody is there."""
    if not _is_address(database):
        return
    deadline = time.monotonic() + LEFT_SECONDS
    question = f"SELECT count(*) FROM pg_stat_activity WHERE usename = '{ROLE}' AND datname = '{_name(database)}'"
    while _server().value(question, "postgres") != "0":
        if time.monotonic() > deadline:
            raise HarnessError(f"sessions of a killed server are there after {LEFT_SECONDS} s")
        time.sleep(0.02)


@contextlib.contextmanager
def held(database: str) -> Iterator[None]:
    """While nobody else can write to it, and everybody can read."""
    if _is_address(database):
        with _server().transaction("LOCK TABLE inboxes IN EXCLUSIVE MODE", _name(database)):
            yield
        return
    with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as file:
        file.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            file.execute("ROLLBACK")
