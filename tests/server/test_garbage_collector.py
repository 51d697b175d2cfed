"""What a full collection has seen is put aside; circles among it are freed when nobody waits."""

import gc
import sys
import threading
import weakref
from collections.abc import Iterator

import pytest

from server import garbage_collector
from server.garbage_collector import OLDEST, ShortCollections, collect_all


class Circle:
    """An object that only the collector can free."""

    def __init__(self):
        self.me = self


@pytest.fixture
def collections() -> Iterator[ShortCollections]:
    short = ShortCollections()
    short.start()
    yield short
    short.stop()


def collect(times: int) -> None:
    for _ in range(times):
        gc.collect()


def test_what_has_survived_a_full_collection_is_not_looked_at_again(
    collections: ShortCollections,
) -> None:
    kept = [[number] for number in range(1_000)]
    gc.collect()
    assert gc.get_freeze_count() > len(kept)
    assert len(gc.get_objects()) < len(kept)


@pytest.mark.parametrize(("limit", "is_idle"), [("MANY", True), ("TOO_MANY", False)])
def test_circles_are_freed_when_many_objects_were_put_aside(
    monkeypatch: pytest.MonkeyPatch, limit: str, is_idle: bool
) -> None:
    monkeypatch.setattr(garbage_collector, "MANY", 1 << 60)
    monkeypatch.setattr(garbage_collector, "TOO_MANY", 1 << 60)
    monkeypatch.setattr(garbage_collector, "SHARE", 1 << 60)
    monkeypatch.setattr(garbage_collector, limit, 100_000)
    short = ShortCollections()
    short.start()
    try:
        circles = [Circle() for _ in range(80_000)]
        seen = weakref.ref(circles[0])
        collect(2)
        del circles
        assert not short.look_at_all(is_idle=is_idle)  # there are fewer
        kept = [[number] for number in range(40_000)]
        collect(2)
        assert seen() is not None  # it was put aside
        assert not short.look_at_all(is_idle=not is_idle)
        assert short.look_at_all(is_idle=is_idle)
        assert seen() is None
        assert len(kept) == 40_000
        collect(2)
        assert not short.look_at_all(is_idle=is_idle)  # what is left is not counted again
    finally:
        short.stop()


def test_objects_that_were_freed_leave_no_room_for_circles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(garbage_collector, "MANY", 50_000)
    monkeypatch.setattr(garbage_collector, "MAX_SEEN", 50_000)
    evicted = [[number] for number in range(200_000)]
    short = ShortCollections()
    short.start()
    try:
        evicted.clear()
        collect(2)
        assert not short.look_at_all(is_idle=True)
        circles = [Circle() for _ in range(60_000)]
        seen = weakref.ref(circles[0])
        collect(2)
        del circles
        assert short.look_at_all(is_idle=True)
        assert seen() is None
    finally:
        short.stop()


def test_the_collector_is_left_as_it_was() -> None:
    before = gc.get_threshold(), len(gc.callbacks)
    short = ShortCollections()
    short.start()
    assert gc.get_threshold() != before[0]
    short.stop()
    assert (gc.get_threshold(), len(gc.callbacks)) == before
    assert gc.get_freeze_count() == 0


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="no full collections by themselves")
def test_a_look_at_all_objects_does_not_put_off_the_next_full_collection(
    collections: ShortCollections,
) -> None:
    kept = [[] for _ in range(800_000)]
    gc.unfreeze()
    collect_all()
    full: list[int] = []
    new: list[list[int]] = []

    def note(phase: str, information: dict[str, int]) -> None:
        if phase == "start" and information["generation"] == OLDEST:
            full.append(len(new))

    gc.callbacks.append(note)
    try:
        while not full and len(new) < len(kept):
            new.append([])
    finally:
        gc.callbacks.remove(note)
    assert full
    assert full[0] < 150_000  # not a quarter of all


def test_nobody_looks_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage_collector, "SECONDS", 0.001)
    asked = threading.Event()

    def is_idle() -> bool:
        asked.set()
        return False

    short = ShortCollections()
    short.start()
    short.keep_looking(is_idle)
    threads = [thread for thread in threading.enumerate() if thread.name == "collector"]
    assert asked.wait(60)
    short.stop()
    for thread in threads:
        thread.join(60)
    assert threads
    assert not any(thread.is_alive() for thread in threads)
