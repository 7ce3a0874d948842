"""PostgreSQL servers of a script's own: a primary, its standby, and what happens to them.

A server is a child of the script and runs as the user `postgres` where the script runs as root, which PostgreSQL refuses. Its files, its
socket and its shared memory are in its folder, so that it leaves nothing behind, however the script ends. The script itself speaks to it
through that socket, whatever becomes of the network between the others. Needs Debian's `postgresql`.
"""
import contextlib
import csv
import glob
import io
import os
import pathlib
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from e2e.harness.children import HarnessError, children, die_with_parent, forget, free_port, temporary_folder

OWNER = "owner"              # the superuser, for the script and for replication
ROLE = DATABASE = "campanile"
PASSWORD = "harness-password"  # of both, where a server is reached over TCP
READY_SECONDS = 60
COMMAND_SECONDS = 180

# What every server runs with; `set` changes it. A server that follows another needs the same.
SETTINGS = {
    "max_connections": "100", "superuser_reserved_connections": "5", "wal_level": "replica", "wal_log_hints": "on", "max_wal_senders": "10",
    "wal_keep_size": "1GB", "hot_standby": "on", "wal_sender_timeout": "10s", "wal_receiver_timeout": "10s",
    "wal_receiver_status_interval": "1s", "wal_retrieve_retry_interval": "500ms", "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2", "tcp_keepalives_count": "3", "synchronous_commit": "on", "synchronous_standby_names": "",
    # Else a killed server would leave a file in /dev/shm.
    "dynamic_shared_memory_type": "mmap", "log_line_prefix": "%m [%p] %a ", "log_min_messages": "warning",
}


def programs() -> str:
    """The folder of the server's programs: Debian keeps them off the PATH."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: int(path.split("/")[4]))
    if found:
        return found[-1]
    initdb = shutil.which("initdb")
    if initdb is None:
        raise HarnessError("PostgreSQL is missing: apt-get install postgresql")
    return os.path.dirname(os.path.realpath(initdb))


@contextlib.contextmanager
def server_folder(prefix: str, parent: str | None = None) -> Iterator[str]:
    """A temporary folder that PostgreSQL's user may go into."""
    with temporary_folder(prefix, parent) as folder:
        os.chmod(folder, 0o755)
        yield folder


class PostgreSQL:
    """One server.

    `host`: the address that it listens on; empty: only its socket leads to it. `prefix`: a command that runs another, as in a network
    namespace. `durable`: false does without fsync, which is enough for who restarts nothing.
    """

    def __init__(self, folder: str, name: str = "primary", *, host: str = "127.0.0.1", prefix: Sequence[str] = (), durable: bool = True,
                 settings: dict[str, str] | None = None) -> None:
        self.name, self.host, self.prefix, self.port = name, host, list(prefix), free_port()
        self.folder = os.path.join(folder, name)
        self.data, self.log = os.path.join(self.folder, "data"), os.path.join(self.folder, "log")
        self.programs = programs()
        self.settings = {**SETTINGS, "fsync": "on" if durable else "off", **(settings or {})}
        self.process: subprocess.Popen[bytes] | None = None
        os.makedirs(self.folder)
        if os.getuid() == 0:
            shutil.chown(self.folder, "postgres", "postgres")

    # --- programs

    def _owned(self, program: str, *arguments: str) -> list[str]:
        """A command as PostgreSQL's user. As root it also gets System V memory of its own, which goes with it."""
        command = [os.path.join(self.programs, program), *arguments]
        if os.getuid() != 0:
            return command
        # The signal at the parent's end is lost where the user changes, and is asked for anew.
        return ["unshare", "--ipc", "setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "--pdeathsig=KILL", "--", *command]

    def _environment(self) -> dict[str, str]:
        return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": self.folder, "LC_ALL": "C.UTF-8",
                "PGHOST": self.folder, "PGPORT": str(self.port), "PGUSER": OWNER, "PGDATABASE": "postgres", "PGPASSWORD": PASSWORD, "PGCONNECT_TIMEOUT": "10"}

    def run(self, program: str, *arguments: str, text: str | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs one of PostgreSQL's programs as its user."""
        done = subprocess.run(self._owned(program, *arguments), cwd=self.folder, env=self._environment(), input=text, text=True,
                              capture_output=True, timeout=COMMAND_SECONDS, check=False)
        if check and done.returncode != 0:
            raise HarnessError(f"{program} of {self.name}: {done.stdout[-1000:]} {done.stderr[-2000:]}")
        return done

    def execute(self, text: str, database: str = "postgres", seconds: float = COMMAND_SECONDS) -> str:
        """Statements as psql takes them, through the socket, as superuser; what they gave, as CSV without headings."""
        try:
            done = subprocess.run(
                ["psql", "-X", "-q", "-d", database, "-v", "ON_ERROR_STOP=1", "--csv", "-t"], cwd=self.folder, env=self._environment(),
                input=text, text=True, capture_output=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            raise HarnessError(f"psql at {self.name}: no answer within {seconds} s to {text[:200]}") from None
        if done.returncode != 0:
            raise HarnessError(f"psql at {self.name}: {done.stderr[-2000:]}")
        return done.stdout

    def rows(self, query: str, database: str = DATABASE) -> list[list[str]]:
        """The rows of a query, as texts; NULL is the empty text."""
        return list(csv.reader(io.StringIO(self.execute(query, database))))

    def value(self, query: str, database: str = DATABASE) -> str:
        return self.rows(query, database)[0][0]

    @contextlib.contextmanager
    def transaction(self, statements: str, database: str = DATABASE) -> Iterator[None]:
        """While a transaction is open in which they were run; it is rolled back."""
        with subprocess.Popen(["psql", "-X", "-q", "-d", database, "-v", "ON_ERROR_STOP=1"], cwd=self.folder, env=self._environment(),
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent) as session:
            assert session.stdin is not None and session.stdout is not None
            session.stdin.write(f"BEGIN; {statements};\n\\echo begun\n")
            session.stdin.flush()
            if session.stdout.readline() != "begun\n":
                raise HarnessError(f"psql at {self.name} could not run {statements}")
            yield
            session.stdin.close()

    def refuses_sessions(self) -> bool:
        """Whether it refuses one more of the programs' sessions because they have all that they may have."""
        done = self.run("psql", "-X", "-U", ROLE, "-d", DATABASE, "-c", "SELECT 1", check=False)
        return done.returncode != 0 and "too many connections" in done.stderr

    # --- its life

    def create(self) -> None:
        """A new server, started, with an empty database `campanile` that the role `campanile` owns."""
        password = os.path.join(self.folder, "password")
        pathlib.Path(password).write_text(PASSWORD, encoding="utf-8")
        if os.getuid() == 0:
            shutil.chown(password, "postgres", "postgres")
        self.run("initdb", "-D", self.data, "-U", OWNER, "-E", "UTF8", "--locale=C.UTF-8", "--auth-local=trust",
                 "--auth-host=scram-sha-256", f"--pwfile={password}", "--no-sync")
        with open(os.path.join(self.data, "pg_hba.conf"), "a", encoding="utf-8") as file:
            file.write("host all all 0.0.0.0/0 scram-sha-256\nhost replication all 0.0.0.0/0 scram-sha-256\n")
        self.start()
        self.execute(f"CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}'")
        self.execute(f"CREATE DATABASE {DATABASE} OWNER {ROLE}")

    def start(self, wait: bool = True) -> None:
        """From the main thread: the server dies with the thread that started it."""
        self._configure()
        command = [*self.prefix, *self._owned("postgres", "-D", self.data)]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, cwd=self.folder, env=self._environment(), stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, preexec_fn=die_with_parent)
        children.append(self.process)
        if wait:
            self.wait_until_ready()

    def _configure(self) -> None:
        """Writes all settings anew: a base backup and pg_rewind bring the other server's."""
        shown = {**self.settings, "listen_addresses": self.host, "port": str(self.port), "unix_socket_directories": self.folder,
                 "cluster_name": self.name}
        text = "".join("{} = '{}'\n".format(name, value.replace("'", "''")) for name, value in shown.items())
        pathlib.Path(self.data, "postgresql.conf").write_text(text, encoding="utf-8")
        pathlib.Path(self.data, "postgresql.auto.conf").write_text("", encoding="utf-8")

    def set(self, **settings: str) -> None:
        """Changes settings; those that don't need a restart hold as soon as the server has read them, which takes milliseconds."""
        self.settings.update(settings)
        self._configure()
        if self.is_running and self.process is not None:
            self.process.send_signal(signal.SIGHUP)

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def is_ready(self) -> bool:
        """Whether it takes sessions, for reading at least."""
        done = subprocess.run([os.path.join(self.programs, "pg_isready"), "-q", "-t", "2"], env=self._environment(), check=False)
        return done.returncode == 0

    def wait_until_ready(self, seconds: float = READY_SECONDS) -> None:
        self._wait(self.is_ready, seconds, "take sessions")

    def _wait(self, holds: Callable[[], bool], seconds: float, what: str) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not self.is_running:
                raise HarnessError(f"PostgreSQL ({self.name}) ended:\n{self.log_tail()}")
            if holds():
                return
            time.sleep(0.05)
        raise HarnessError(f"PostgreSQL ({self.name}) did not {what} within {seconds} s:\n{self.log_tail()}")

    def stop(self, mode: str = "fast") -> None:
        """`smart` waits for the sessions, `fast` ends them, `immediate` is a crash without a last checkpoint."""
        process = self.process
        if process is None or not self.is_running:
            return
        process.send_signal({"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}[mode])
        try:
            process.wait(READY_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise HarnessError(f"PostgreSQL ({self.name}) did not stop:\n{self.log_tail()}") from None
        forget(process)

    def restart(self, mode: str = "fast") -> None:
        self.stop(mode)
        self.start()

    def kill(self) -> None:
        """SIGKILL to the postmaster and all its processes at one moment, as when the machine stops: no checkpoint, no farewell. What
        was written to files survives, as the page cache does; what was in the server's own memory doesn't."""
        process = self.process
        if process is None or not self.is_running:
            return
        # Stopped, it starts none anew while the others die.
        process.send_signal(signal.SIGSTOP)
        offspring = _children_of(process.pid)
        for one in offspring:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        process.kill()
        process.wait()
        forget(process)
        deadline = time.monotonic() + 10
        while any(_is_alive(one) for one in offspring) and time.monotonic() < deadline:
            time.sleep(0.01)

    def freeze(self) -> None:
        """SIGSTOP to all its processes: it neither answers nor ends its connections."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        if self.process is not None and self.is_running:
            for one in [self.process.pid, *_children_of(self.process.pid)]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one, number)

    def log_tail(self, size: int = 3000) -> str:
        with contextlib.suppress(OSError):
            return pathlib.Path(self.log).read_bytes()[-size:].decode(errors="replace")
        return "(no log)"

    # --- its sessions

    @property
    def address(self) -> str:
        """What a program is given as its database: PGPASSWORD holds the password."""
        return f"postgres://{ROLE}@{self.host}:{self.port}/{DATABASE}"

    def terminate_backends(self, condition: str = "true") -> int:
        """Ends the sessions of the role `campanile`, as pg_terminate_backend does; how many there were."""
        return int(self.value("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                              f"WHERE usename = '{ROLE}' AND pid <> pg_backend_pid() AND ({condition})"))

    def sessions(self) -> int:
        return int(self.value(f"SELECT count(*) FROM pg_stat_activity WHERE usename = '{ROLE}'"))

    # --- primary and standby

    def follow(self, primary: "PostgreSQL") -> str:
        """Becomes a standby of another server and is started; it must not run. Which program brought it there: pg_rewind where it
        has been a primary before and can be led back, else pg_basebackup."""
        way = "pg_rewind"
        if os.path.exists(os.path.join(self.data, "PG_VERSION")):
            # Without it pg_rewind may see the timeline that was before the promotion.
            primary.execute("CHECKPOINT")
            if self.run("pg_rewind", "-D", self.data, "--source-server", primary._conninfo_by_socket(), check=False).returncode != 0:
                shutil.rmtree(self.data)
        if not os.path.exists(os.path.join(self.data, "PG_VERSION")):
            way = "pg_basebackup"
            self.run("pg_basebackup", "-d", primary._conninfo_by_socket(), "-D", self.data, "-X", "stream", "-c", "fast", "--no-sync")
        self.settings["primary_conninfo"] = (
            f"host={primary.host} port={primary.port} user={OWNER} password={PASSWORD} application_name={self.name} "
            "connect_timeout=3 keepalives_idle=5 keepalives_interval=2 keepalives_count=3")
        # Where it is promoted it has no standby yet, and must not wait for one.
        self.settings["synchronous_standby_names"] = ""
        pathlib.Path(self.data, "standby.signal").touch()
        self.start()
        return way

    def _conninfo_by_socket(self) -> str:
        return f"host={self.folder} port={self.port} user={OWNER} dbname=postgres"

    def wait_until_followed(self, standby: "PostgreSQL", state: str = "streaming", sync: str = "", seconds: float = READY_SECONDS) -> None:
        """Until a standby streams from this server and, if asked, counts as `sync`."""
        query = f"SELECT count(*) FROM pg_stat_replication WHERE application_name = '{standby.name}' AND state = '{state}'"
        if sync:
            query += f" AND sync_state = '{sync}'"
        self._wait(lambda: self.value(query, "postgres") == "1", seconds, f"see {standby.name} {sync or state}")

    @property
    def is_standby(self) -> bool:
        return self.value("SELECT pg_is_in_recovery()", "postgres") == "t"

    def promote(self) -> None:
        """Becomes a primary, and takes writes when this returns; it waits for no standby."""
        self.settings.pop("primary_conninfo", None)
        if self.settings["synchronous_standby_names"]:
            self.set(synchronous_standby_names="")
        promoted = self.value(f"SELECT pg_promote(true, {READY_SECONDS})", "postgres")
        if promoted != "t":
            raise HarnessError(f"PostgreSQL ({self.name}) was not promoted:\n{self.log_tail()}")

    def wait_until_replayed(self, seconds: float = READY_SECONDS) -> None:
        """A standby: until what it received can be read. The last record that it received may lack its end, because the primary died
        while it sent it; then nothing is replayed any more, and the process that replays waits for what no primary sends."""
        self._wait(lambda: self.value(self._REPLAYED, "postgres") == "t", seconds, "replay what it received")

    # The waits: https://www.postgresql.org/docs/15/monitoring-stats.html, of the startup process.
    _REPLAYED = """
        SELECT coalesce(pg_last_wal_replay_lsn() >= pg_last_wal_receive_lsn(), true) OR NOT EXISTS (
                SELECT FROM pg_stat_wal_receiver WHERE status = 'streaming') AND EXISTS (
                SELECT FROM pg_stat_activity WHERE backend_type = 'startup' AND wait_event = 'RecoveryRetrieveRetryInterval')
        """


class Pair:
    """A primary and a standby, and which is which by now. `commit`: what the primary's synchronous_commit is."""

    def __init__(self, primary: PostgreSQL, standby: PostgreSQL, commit: str = "on", synchronous: bool = True) -> None:
        self.primary, self.standby = primary, standby
        self.commit, self.synchronous = commit, synchronous

    @property
    def address(self) -> str:
        """Both as one address: libpq takes the one that can be written to."""
        hosts = ",".join(f"{one.host}:{one.port}" for one in sorted((self.primary, self.standby), key=lambda one: one.name))
        return f"postgres://{ROLE}@{hosts}/{DATABASE}?target_session_attrs=read-write"

    def create(self) -> None:
        self.primary.settings["synchronous_commit"] = self.standby.settings["synchronous_commit"] = self.commit
        self.primary.create()
        self.join()

    def join(self) -> str:
        """The other server follows, and from then on a commit waits for it (unless `synchronous` is false); by which program."""
        way = self.standby.follow(self.primary)
        self.primary.wait_until_followed(self.standby)
        if self.synchronous:
            self.primary.set(synchronous_standby_names=self.standby.name)
            self.primary.wait_until_followed(self.standby, sync="sync")
        return way

    def swap(self) -> None:
        """After a promotion: the standby is the primary now. The other one is no server until `join`."""
        self.primary, self.standby = self.standby, self.primary

    def stop(self) -> None:
        for one in (self.primary, self.standby):
            one.stop("immediate")


class Failover(threading.Thread):
    """Promotes the standby when the primary hasn't answered for `patience` seconds, as a cluster's manager would: looks, makes sure that
    the old primary is dead, promotes. Afterwards nothing is synchronous until the pair is joined again. Once; start another then."""

    def __init__(self, pair: Pair, patience: float = 1.0) -> None:
        super().__init__(daemon=True, name="failover")
        self.pair, self.patience = pair, patience
        self.promoted_at: float | None = None    # time.time() when the standby took writes
        self.trouble: Exception | None = None
        self.before_promotion: Callable[[PostgreSQL], None] | None = None   # is given the standby when the primary is dead
        self._over = threading.Event()

    def run(self) -> None:
        try:
            seen = time.monotonic()
            while not self._over.wait(0.1):
                if self.pair.primary.is_running and self.pair.primary.is_ready():
                    seen = time.monotonic()
                elif time.monotonic() - seen >= self.patience:
                    return self._promote()
        except Exception as error:  # noqa: BLE001 – told by `wait`
            self.trouble = error

    def _promote(self) -> None:
        self.pair.primary.kill()   # a primary that only seemed dead must not go on
        if self.before_promotion is not None:
            self.before_promotion(self.pair.standby)
        self.pair.standby.promote()
        self.promoted_at = time.time()
        self.pair.swap()

    def wait(self, seconds: float = READY_SECONDS) -> float:
        """Until it has promoted; when that was."""
        self.join(seconds)
        if self.trouble is not None:
            raise HarnessError(f"the failover failed: {self.trouble}") from self.trouble
        if self.promoted_at is None:
            raise HarnessError(f"no failover within {seconds} s")
        return self.promoted_at

    def cancel(self) -> None:
        self._over.set()
        self.join()


def _stat(process: int) -> list[str]:
    """State, parent and so on of a process; nothing if it is gone."""
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _is_alive(process: int) -> bool:
    return _stat(process)[:1] not in ([], ["Z"], ["X"])


def _children_of(parent: int) -> list[int]:
    found = (int(name) for name in os.listdir("/proc") if name.isdigit())
    return [one for one in found if _stat(one)[1:2] == [str(parent)]]
