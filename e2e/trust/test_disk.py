"""The power-loss model itself, held to what it promises: python3 -m e2e.trust.test_disk"""
import random
import unittest

from e2e.trust import disk


def record(kind, handle=1, offset=0, payload=b"", flag=0):
    return disk.Record(kind, flag, 1, handle, offset, memoryview(payload))


def played(*records):
    state = disk.Disk("/d")
    for index, one in enumerate(records):
        state.apply(index, one)
    return state


def outcomes(state, path="/d/db", seeds=400):
    """Every content that `path` has over many power cuts; None: it isn't there."""
    found = set()
    for seed in range(seeds):
        rng = random.Random(seed)
        file = state._names_after_power_cut(rng).get(path)
        found.add(None if file is None else bytes(file.after_power_cut(rng)))
    return found


DIRECTORY = record(disk.OPEN, 9, payload=b"/d", flag=disk.OPEN_DIRECTORY)
CREATED = record(disk.OPEN, 1, payload=b"/d/db", flag=disk.OPEN_CREATED)


def synced(handle, serial):
    return (record(disk.SYNC_BEGIN, handle, serial), record(disk.SYNC_END, handle, serial))


NAMED = (DIRECTORY, CREATED, *synced(9, 1))


class DiskModel(unittest.TestCase):
    def test_what_was_synced_is_always_there(self):
        state = played(*NAMED, record(disk.WRITE, payload=b"a" * 1024), *synced(1, 2))
        self.assertEqual(outcomes(state), {b"a" * 1024})

    def test_a_name_is_there_for_sure_only_after_its_directory_was_synced(self):
        state = played(DIRECTORY, CREATED, record(disk.WRITE, payload=b"a"), *synced(1, 1))
        self.assertEqual(outcomes(state), {None, b"a"})

    def test_a_sync_that_did_not_return_promises_nothing(self):
        state = played(*NAMED, record(disk.WRITE, payload=b"a" * 512), record(disk.SYNC_BEGIN, 1, 2))
        self.assertEqual(outcomes(state), {b"", bytes(512), b"a" * 512})

    def test_a_write_after_the_begin_of_a_sync_is_not_covered_by_it(self):
        state = played(*NAMED, record(disk.SYNC_BEGIN, 1, 2), record(disk.WRITE, payload=b"a" * 512),
                       record(disk.SYNC_END, 1, 2))
        self.assertIn(b"", outcomes(state))

    def test_an_unsynced_write_is_torn_at_sectors_and_only_there(self):
        state = played(*NAMED, record(disk.WRITE, payload=b"a" * 1024), *synced(1, 2),
                       record(disk.WRITE, payload=b"b" * 1024))
        a, b = b"a" * 512, b"b" * 512
        self.assertEqual(outcomes(state), {a + a, a + b, b + a, b + b})

    def test_a_sector_holds_only_what_it_once_held(self):
        state = played(*NAMED, record(disk.WRITE, payload=b"a" * 512), *synced(1, 2),
                       record(disk.WRITE, offset=0, payload=b"b" * 100), record(disk.WRITE, offset=200, payload=b"c"))
        first = b"b" * 100 + b"a" * 412
        self.assertEqual(outcomes(state), {b"a" * 512, first, first[:200] + b"c" + first[201:]})

    def test_a_truncation_may_be_forgotten_and_what_follows_counts_only_with_it(self):
        state = played(*NAMED, record(disk.WRITE, payload=b"a" * 512), *synced(1, 2),
                       record(disk.TRUNCATE, offset=0), record(disk.WRITE, payload=b"b"))
        self.assertEqual(outcomes(state), {b"a" * 512, b"", b"b", b"\0"})

    def test_a_file_may_be_longer_than_what_arrived(self):
        state = played(*NAMED, record(disk.WRITE, payload=b"a" * 512),
                       record(disk.WRITE, offset=512, payload=b"b" * 512))
        self.assertIn(bytes(512) + b"b" * 512, outcomes(state))

    def test_an_unsynced_unlink_may_be_forgotten_and_a_new_file_may_be_missing(self):
        state = played(*NAMED, record(disk.WRITE, payload=b"old"), *synced(1, 2),
                       record(disk.UNLINK, payload=b"/d/db"),
                       record(disk.OPEN, 2, payload=b"/d/db", flag=disk.OPEN_CREATED),
                       record(disk.WRITE, 2, payload=b"new"), *synced(2, 3))
        self.assertEqual(outcomes(state), {b"old", None, b"new"})

    def test_a_rename_is_one_change(self):
        state = played(*NAMED, record(disk.WRITE, payload=b"x"), *synced(1, 2),
                       record(disk.RENAME, payload=b"/d/db\0/d/db2"))
        for seed in range(100):
            self.assertEqual(len(state._names_after_power_cut(random.Random(seed))), 1)

    def test_what_escaped_the_log_stops_the_replay(self):
        with self.assertRaises(disk.LogError):
            played(*NAMED, record(disk.ESCAPED, payload=b"fallocate"))


if __name__ == "__main__":
    unittest.main()
