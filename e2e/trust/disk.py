"""The log of recorder.c, and the disk as a power cut at some point of it may have left it.

What is promised: a write is on the disk once a sync of its file, begun after it, returned; a name is there (or gone)
once its directory was synced likewise. Everything else may be there or not. The model is that of a page cache over
512-byte sectors, which is weaker than the file systems in use (ext4, xfs and btrfs promise more):

- A sector holds one of the contents that it had in memory since the last sync, each sector for itself: writes are torn
  at sector boundaries and reordered, but a sector never holds bytes that it never held.
- Sizes follow the order of the calls, for themselves: a file may be longer than what arrived (zeros in between), a
  truncation may be forgotten, and what is written after a truncation counts only if the truncation does.
- A name is bound to one of the files it was bound to since the directory's last sync. After a rename the names of a
  directory follow the order of the calls together, as a rename is one change.
"""
import bisect
import collections
import contextlib
import mmap
import os
import struct

HEADER = struct.Struct("<IIBBHIIQ")
MAGIC = 0x31444352
OPEN, WRITE, SYNC_BEGIN, SYNC_END, TRUNCATE, RENAME, UNLINK, SEND, ESCAPED, RANGE_HINT, RECEIVE = range(1, 12)
OPEN_CREATED, OPEN_TRUNCATED, OPEN_DIRECTORY = 1, 2, 4
SECTOR = 512
TORN_SECTORS = 3000      # at most so many sectors of a file are torn for themselves at one point

Record = collections.namedtuple("Record", "type flag pid handle offset payload")


class LogError(Exception):
    """The log can't be replayed: damaged, or something happened that it doesn't hold."""


class Log:
    """The records in order. Payloads are views of the mapped file, so the whole log needs no memory of its own."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.view = memoryview(self.bytes)
        self.positions = []
        at, end = 0, len(self.view)
        while at < end:
            magic, length = struct.unpack_from("<II", self.view, at)
            if magic != MAGIC or at + HEADER.size + length > end:
                raise LogError(f"the log is damaged at byte {at}")
            self.positions.append(at)
            at += HEADER.size + length

    def __len__(self):
        return len(self.positions)

    def __getitem__(self, index):
        at = self.positions[index]
        _, length, kind, flag, _, pid, handle, offset = HEADER.unpack_from(self.view, at)
        start = at + HEADER.size
        return Record(kind, flag, pid, handle, offset, self.view[start:start + length])

    def __iter__(self):
        return (self[index] for index in range(len(self)))


def _apply(content, operation):
    """Makes one write or truncation to a bytearray, as a file system would."""
    _, offset, payload = operation
    if payload is None:
        if offset < len(content):
            del content[offset:]
        else:
            content.extend(bytes(offset - len(content)))
        return
    if offset > len(content):
        content.extend(bytes(offset - len(content)))
    content[offset:offset + len(payload)] = payload


class File:
    """One file, whatever its names: what is surely on the disk, and the operations that may be."""

    def __init__(self):
        self.durable = bytearray()
        self.pending = []       # (index of the record, offset or new size, payload or None for a truncation)
        self.sectors = {}       # number of a sector → positions in `pending` of the writes that touch it

    def add(self, index, offset, payload):
        position = len(self.pending)
        self.pending.append((index, offset, payload))
        if payload is not None and len(payload):
            for sector in range(offset // SECTOR, (offset + len(payload) - 1) // SECTOR + 1):
                self.sectors.setdefault(sector, []).append(position)

    def synced(self, begin):
        """A sync that began at record `begin` returned: everything before it is on the disk."""
        count = bisect.bisect_left(self.pending, begin, key=lambda one: one[0])
        if count == 0:
            return
        for operation in self.pending[:count]:
            _apply(self.durable, operation)
        rest = self.pending[count:]
        self.pending, self.sectors = [], {}
        for operation in rest:
            self.add(*operation)

    def cached(self):
        """What a reader sees while the power is on."""
        return self._after(len(self.pending))

    def _after(self, count):
        content = bytearray(self.durable)
        for operation in self.pending[:count]:
            _apply(content, operation)
        return content

    def after_power_cut(self, random):
        if not self.pending:
            return self.durable
        manner = random.random()
        if manner < 0.1:
            return self.durable                       # nothing of what wasn't synced
        if manner < 0.2:
            return self.cached()                      # all of it
        cut = random.randint(0, len(self.pending))
        content = self._after(cut)
        if manner < 0.3:
            return content                            # a prefix, whole
        self._tear(content, cut, random)
        return content

    def _tear(self, content, cut, random):
        """Gives sectors a content of their own: any that they had since the last sync."""
        truncations = [(position, one[1]) for position, one in enumerate(self.pending) if one[2] is None]
        chosen = list(self.sectors)
        if len(chosen) > TORN_SECTORS:
            chosen = random.sample(chosen, TORN_SECTORS)
        keep = random.choice((None, 0.1, 0.5, 0.9))   # None: any version alike; else how likely a write arrived
        for sector in chosen:
            start, end = sector * SECTOR, min((sector + 1) * SECTOR, len(content))
            if start >= end:
                continue
            touching = [one for one in truncations if one[1] < end]
            if any(size > start for _, size in touching):
                continue                              # cut by a truncation in its middle: as the order of calls has it
            first = max((position for position, _ in touching if position < cut), default=-1)
            last = min((position for position, _ in touching if position >= cut), default=len(self.pending))
            versions = [position for position in self.sectors[sector] if first < position < last]
            if keep is None:
                versions = versions[:random.randint(0, len(versions))]
            else:
                arrived = [i for i in range(len(versions)) if random.random() < keep]
                versions = versions[:arrived[-1] + 1] if arrived else []
            base = b"" if first >= 0 else bytes(self.durable[start:end])
            piece = bytearray(base.ljust(end - start, b"\0"))
            for position in versions:
                _, offset, payload = self.pending[position]
                low, high = max(start, offset), min(end, offset + len(payload))
                if low < high:
                    piece[low - start:high - start] = payload[low - offset:high - offset]
            content[start:end] = piece


class Disk:
    """The recorded files of one folder, brought forward record by record."""

    def __init__(self, folder):
        self.folder = folder
        self.names = {}          # as the programs see them: path → File
        self.durable_names = {}  # as the directory's last sync left them
        self.pending_names = []  # (index, [(path, File or None), …])
        self.handles = {}        # (pid, handle) → File, or None for the directory
        self.begun = {}          # (pid, serial) → (File or None, index)
        self.syncs = 0

    def _name(self, index, *changes):
        for path, file in changes:
            if file is None:
                self.names.pop(path, None)
            else:
                self.names[path] = file
        self.pending_names.append((index, list(changes)))

    def apply(self, index, record):
        kind, handle = record.type, (record.pid, record.handle)
        if kind == WRITE:
            self.handles[handle].add(index, record.offset, record.payload)
        elif kind == OPEN:
            self._open(index, record, handle)
        elif kind == SYNC_BEGIN:
            self.begun[(record.pid, record.offset)] = (self.handles[handle], index)
        elif kind == SYNC_END:
            file, begin = self.begun.pop((record.pid, record.offset))
            self.syncs += 1
            if file is None:
                self._sync_names(begin)
            else:
                file.synced(begin)
        elif kind == TRUNCATE:
            self.handles[handle].add(index, record.offset, None)
        elif kind == UNLINK:
            self._name(index, (bytes(record.payload).decode(), None))
        elif kind == RENAME:
            old, new = bytes(record.payload).decode().split("\0")
            self._name(index, (new, self.names[old]), (old, None))
        elif kind == ESCAPED:
            raise LogError(f"record {index}: {bytes(record.payload).decode()}: the log can't stand for the disk")

    def _open(self, index, record, handle):
        path = bytes(record.payload).decode()
        if record.flag & OPEN_DIRECTORY:
            self.handles[handle] = None
            return
        if record.flag & OPEN_CREATED:
            self._name(index, (path, File()))
        elif path not in self.names:
            raise LogError(f"record {index}: {path} was there before the recording")
        self.handles[handle] = self.names[path]
        if record.flag & OPEN_TRUNCATED:
            self.names[path].add(index, 0, None)

    def _sync_names(self, begin):
        for index, changes in self.pending_names:
            if index < begin:
                for path, file in changes:
                    self._bind(self.durable_names, path, file)
        self.pending_names = [one for one in self.pending_names if one[0] >= begin]

    @staticmethod
    def _bind(names, path, file):
        if file is None:
            names.pop(path, None)
        else:
            names[path] = file

    def _names_after_power_cut(self, random):
        names = dict(self.durable_names)
        together = any(len(changes) > 1 for _, changes in self.pending_names)
        cut = random.randint(0, len(self.pending_names))
        cuts = {}
        for position, (_, changes) in enumerate(self.pending_names):
            for path, file in changes:
                if not together:
                    cut = cuts.setdefault(path, random.randint(0, len(self.pending_names)))
                if position < cut:
                    self._bind(names, path, file)
        return names

    def write_after_power_cut(self, random, target):
        """Writes the files, as a power cut now may leave them, into the folder `target`."""
        for name in os.listdir(target):
            # SQLite's own -shm goes with the last connection, which may close between the two calls.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(target, name))
        for path, file in sorted(self._names_after_power_cut(random).items()):
            with open(os.path.join(target, os.path.basename(path)), "wb") as out:
                out.write(file.after_power_cut(random))

    def differences_from_reality(self):
        """Compares what the programs would see by the log with what is in the folder: the recorder missed nothing."""
        wrong = []
        for path, file in self.names.items():
            try:
                with open(path, "rb") as real:
                    if real.read() != bytes(file.cached()):
                        wrong.append(f"{path} has other bytes than the log")
            except FileNotFoundError:
                wrong.append(f"{path} isn't there")
        return wrong
