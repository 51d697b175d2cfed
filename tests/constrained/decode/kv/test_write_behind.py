"""Files that a thread of its own writes: they look as if they were written at once."""

import threading
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from constrained.decode.kv.snapshot_files import SnapshotFiles
from constrained.decode.kv.snapshots import DISK, Outline, Snapshot, Snapshots
from constrained.decode.kv.write_behind import WriteBehind

PATIENCE = 60  # seconds


class SlowFiles(SnapshotFiles):
    """Files on a disk that writes when it is told to."""

    def __init__(self, folder: Path, budget: int = DISK):
        super().__init__(folder, "model", budget)
        self.goes_on = threading.Event()

    def write(self, snapshot: Snapshot) -> None:
        assert self.goes_on.wait(PATIENCE)
        super().write(snapshot)


def numbered(number: int, size: int = 1000) -> Snapshot:
    return Snapshot(Outline([number]), bytes([number]) * size)


def fail(error: Exception) -> None:
    raise AssertionError(error)


def start(call: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=call)
    thread.start()
    return thread


@pytest.fixture
def slow(tmp_path: Path) -> SlowFiles:
    return SlowFiles(tmp_path)


def test_what_waits_can_be_found_and_read(slow: SlowFiles) -> None:
    files = WriteBehind(slow, 10_000, fail)
    first, second = numbered(1), numbered(2)
    files.write(first)
    files.write(second)
    assert slow.outlines() == []
    assert files.outlines() == [first.outline, second.outline]
    assert files.read(second.outline.key) == second
    slow.goes_on.set()
    files.wait()
    assert slow.outlines() == files.outlines() == [first.outline, second.outline]
    assert (files.read(first.outline.key), files.amount.count) == (first, 2)


def test_what_is_dropped_is_gone_at_once_and_for_good(slow: SlowFiles) -> None:
    files = WriteBehind(slow, 10_000, fail)
    first, second = numbered(1), numbered(2)
    files.write(first)  # is being written
    files.write(second)
    files.drop(first.outline.key)
    files.drop(second.outline.key)
    files.drop("nobody")
    assert files.outlines() == []
    slow.goes_on.set()
    files.wait()
    assert slow.outlines() == []


def test_there_is_room_for_so_many(slow: SlowFiles) -> None:
    files = WriteBehind(slow, 2000, fail)
    files.write(numbered(1))
    files.write(numbered(2))
    third = start(lambda: files.write(numbered(3)))
    assert third.is_alive()
    assert len(files.outlines()) == 2
    slow.goes_on.set()
    third.join(PATIENCE)
    files.wait()
    assert slow.amount.count == 3


def test_one_may_wait_without_any_room(slow: SlowFiles) -> None:
    files = WriteBehind(slow, 0, fail)
    files.write(numbered(1))
    assert len(files.outlines()) == 1
    slow.goes_on.set()
    files.wait()
    assert slow.amount.count == 1


def test_what_goes_wrong_is_counted(tmp_path: Path) -> None:
    kept = Snapshots(0)
    slow = SlowFiles(tmp_path / "folder")
    files = WriteBehind(slow, 0, kept.note)
    slow.goes_on.set()
    (tmp_path / "folder").rmdir()
    files.write(numbered(1))
    files.wait()
    assert (kept.failures, files.outlines()) == (1, [])
    assert kept.last_failure
    assert "No such file" in kept.last_failure


def test_a_file_that_made_room_is_a_miss(tmp_path: Path) -> None:
    files = SnapshotFiles(tmp_path, "model", 1500)
    kept = Snapshots(0, WriteBehind(files, 0, fail))
    first, second = numbered(1), numbered(2)
    files.write(first)
    (outline,) = kept.outlines()
    files.write(second)
    assert kept.take(outline) is None
    assert kept.failures == 1


class Files(RuleBasedStateMachine):
    """Written behind or at once: the same."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        behind, at_once = (Path(self.folder.name) / name for name in ("behind", "at once"))
        self.behind = WriteBehind(SnapshotFiles(behind, "model", DISK), 3000, fail)
        self.at_once = SnapshotFiles(at_once, "model", DISK)

    @rule(number=st.integers(0, 5), size=st.sampled_from([0, 1000, 4000]))
    def write(self, number: int, size: int) -> None:
        for files in (self.behind, self.at_once):
            files.drop(numbered(number).outline.key)
            files.write(numbered(number, size))

    @rule(number=st.integers(0, 5))
    def drop(self, number: int) -> None:
        for files in (self.behind, self.at_once):
            files.drop(numbered(number).outline.key)

    @rule()
    def wait(self) -> None:
        self.behind.wait()
        assert self.behind.amount == self.at_once.amount

    @invariant()
    def look_the_same(self) -> None:
        outlines = sorted(self.at_once.outlines(), key=str)
        assert sorted(self.behind.outlines(), key=str) == outlines
        for outline in outlines:
            assert self.behind.read(outline.key) == self.at_once.read(outline.key)

    def teardown(self) -> None:
        self.behind.wait()
        self.folder.cleanup()


TestFiles = Files.TestCase
TestFiles.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)
