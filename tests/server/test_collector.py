"""What a full collection has seen is put aside; circles among it are freed when nobody waits."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from server.collector import MANY, TOO_MANY, ShortCollections


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


@pytest.mark.parametrize(("times", "is_idle"), [(MANY, True), (TOO_MANY, False)])
def test_circles_are_freed_when_it_is_time(
    collections: ShortCollections, times: int, is_idle: bool
) -> None:
    circle = Circle()
    seen = weakref.ref(circle)
    collect(times - 1)
    del circle
    assert not collections.look_at_all(is_idle=is_idle)
    gc.collect()
    assert seen() is not None  # it was put aside
    assert collections.look_at_all(is_idle=is_idle)
    assert seen() is None


def test_the_collector_is_left_as_it_was() -> None:
    before = gc.get_threshold(), len(gc.callbacks)
    short = ShortCollections()
    short.start()
    assert gc.get_threshold() != before[0]
    short.stop()
    assert (gc.get_threshold(), len(gc.callbacks)) == before
    assert gc.get_freeze_count() == 0
