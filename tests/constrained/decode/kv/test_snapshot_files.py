"""Files of snapshots: what is damaged, foreign or too much is a miss, never an error."""

import hashlib
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from constrained.decode.kv.snapshot_files import PREFIX, SnapshotFiles
from constrained.decode.kv.snapshots import DISK, Outline, Snapshot, Snapshots
from constrained.decode.metrics import Amount
from constrained.errors import RequestError
from constrained.prompt.cache_scope import name_scope

TOKENS = [1, 2, 151_000, 7]
SNAPSHOT = Snapshot(Outline(TOKENS, 2, (1, 3)), b"a state of some bytes", (b"one", b"three"))


def store(folder: Path, *snapshots: Snapshot, name: str = "model") -> list[Path]:
    files = SnapshotFiles(folder, name, DISK)
    for snapshot in snapshots:
        files.write(snapshot)
    return [files._entries[snapshot.outline.key].path for snapshot in snapshots]


def read_all(folder: Path, name: str = "model") -> list[Snapshot | None]:
    kept = Snapshots(0, SnapshotFiles(folder, name, DISK))
    return [kept.take(outline) for outline in kept.outlines()]


def numbered(number: int, size: int = 1000, pinned: bool = False) -> Snapshot:
    return Snapshot(Outline([number], is_pinned=pinned), bytes(size))


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    pinned = Snapshot(Outline([5], is_pinned=True), b"")
    store(tmp_path / "new" / "folder", SNAPSHOT, pinned)
    found = read_all(tmp_path / "new" / "folder")
    assert sorted(found, key=str) == sorted([SNAPSHOT, pinned], key=str)
    files = SnapshotFiles(tmp_path / "new" / "folder", "model", DISK)
    assert (files.amount.count, files.amount.tokens) == (2, 5)


def test_scopes_are_told_apart(tmp_path: Path) -> None:
    names = [name_scope("A secret"), name_scope("another")]
    scoped = [Snapshot(replace(SNAPSHOT.outline, scope=name), name.encode()) for name in names]
    plain = replace(SNAPSHOT, state=b"of nobody")
    with_places = [replace(kept, checkpoints=(b"one", b"three")) for kept in scoped]
    paths = store(tmp_path, plain, *with_places)
    assert len({*paths}) == 3
    found = [kept for kept in read_all(tmp_path) if kept]
    states = {kept.outline.scope: kept.state for kept in found}
    assert states == {"": b"of nobody", **{name: name.encode() for name in names}}
    for path in paths:
        assert b"secret" not in path.read_bytes()


def rewrite_header(path: Path, **fields: object) -> None:
    """Changes fields of a header, or takes them away (None); the checksum is right."""
    data = path.read_bytes()
    magic, _, size = PREFIX.unpack_from(data)
    header = {**json.loads(data[PREFIX.size : PREFIX.size + size]), **fields}
    text = json.dumps({name: value for name, value in header.items() if value is not None})
    body = text.encode() + data[PREFIX.size + size :]
    checksum = hashlib.blake2b(body, digest_size=32).digest()
    path.write_bytes(PREFIX.pack(magic, checksum, len(text)) + body)


def test_a_file_from_before_there_were_scopes_is_of_the_common_one(tmp_path: Path) -> None:
    (path,) = store(tmp_path, SNAPSHOT)
    rewrite_header(path, scope=None)
    assert read_all(tmp_path) == [SNAPSHOT]


@pytest.mark.parametrize("scope", [1, ["a"], "../a", "é" * 32, "A" * 32, "a" * 65])
def test_what_is_no_scope_is_a_miss(tmp_path: Path, scope: object) -> None:
    (path,) = store(tmp_path, SNAPSHOT)
    rewrite_header(path, scope=scope)
    assert read_all(tmp_path) == []


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    (path,) = store(tmp_path / "folder", SNAPSHOT)
    if sys.platform != "win32":
        assert path.stat().st_mode & 0o077 == 0
        assert path.parent.stat().st_mode & 0o077 == 0


def test_that_of_another_model_is_a_miss_and_stays(tmp_path: Path) -> None:
    (path,) = store(tmp_path, SNAPSHOT)
    assert read_all(tmp_path, "another model") == []
    other = store(tmp_path, SNAPSHOT, name="another model")[0]
    assert (path.exists(), other != path) == (True, True)
    assert read_all(tmp_path) == [SNAPSHOT]


@given(data=st.data())
def test_a_damaged_byte_is_a_miss(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("folder")
    (path,) = store(folder, SNAPSHOT)
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    assert read_all(folder) in ([], [None])


@given(data=st.data())
def test_a_file_that_was_cut_or_goes_on_is_a_miss(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("folder")
    (path,) = store(folder, SNAPSHOT)
    content = path.read_bytes()
    cut = content[: data.draw(st.integers(0, len(content) - 1))]
    path.write_bytes(data.draw(st.sampled_from([cut, content + b"\0"])))
    assert read_all(folder) == []


def test_what_is_damaged_after_it_was_found_is_removed(tmp_path: Path) -> None:
    (path,) = store(tmp_path, SNAPSHOT)
    kept = Snapshots(0, SnapshotFiles(tmp_path, "model", DISK))
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert kept.take(SNAPSHOT.outline) is None
    assert "the snapshot is damaged" in (kept.last_failure or "")
    assert not path.exists()
    assert [*kept.outlines()] == []
    store(tmp_path, SNAPSHOT)
    again = Snapshots(0, SnapshotFiles(tmp_path, "model", DISK))
    path.unlink()
    assert again.take(SNAPSHOT.outline) is None
    assert again.failures == 1


def test_an_exchanged_file_is_a_miss(tmp_path: Path) -> None:
    one, other = store(tmp_path, numbered(1), numbered(2))
    kept = Snapshots(0, SnapshotFiles(tmp_path, "model", DISK))
    os.replace(one, other)
    assert kept.take(numbered(2).outline) is None
    assert "has other tokens" in (kept.last_failure or "")


def test_a_header_that_claims_too_much_is_not_believed(tmp_path: Path) -> None:
    (path,) = store(tmp_path, SNAPSHOT)
    content = path.read_bytes()
    magic, checksum, _ = PREFIX.unpack_from(content)
    path.write_bytes(PREFIX.pack(magic, checksum, 2**32 - 1) + content[PREFIX.size :])
    assert read_all(tmp_path) == []
    path.write_bytes(content.replace(b'"in_blocks": 2', b'"in_blocks":-2'))
    assert read_all(tmp_path) == []


def test_the_least_recently_used_files_go_first_and_the_pinned_ones_last(tmp_path: Path) -> None:
    paths = store(tmp_path, numbered(1, pinned=True), *map(numbered, (2, 3)))
    paths += store(tmp_path, numbered(4), name="another model")
    other = tmp_path / "notes.snapshot"
    other.write_bytes(bytes(5000))
    for age, path in enumerate(paths):
        os.utime(path, ns=(age, age))
    size = sum(path.stat().st_size for path in paths)
    files = SnapshotFiles(tmp_path, "model", size)
    files.read(numbered(2).outline.key)  # is used now
    files.write(numbered(5))
    assert [path.exists() for path in paths] == [True, True, False, True]
    os.utime(files._entries[numbered(5).outline.key].path, ns=(2**62, 2**62))
    files.write(numbered(6, 2100))
    assert [path.exists() for path in paths] == [True, False, False, False]
    assert sorted(past.tokens[0] for past in files.outlines()) == [1, 5, 6]
    assert files.amount.count == 3
    assert other.exists()


def test_what_is_too_large_is_not_written(tmp_path: Path) -> None:
    kept = Snapshots(0, SnapshotFiles(tmp_path, "model", 1000))
    assert not kept.admits(1001)
    kept.put(numbered(1, 1001))
    assert list(tmp_path.iterdir()) == []
    assert kept.failures == 0


def test_what_has_no_room_in_memory_goes_to_a_file(tmp_path: Path) -> None:
    kept = Snapshots(1000, SnapshotFiles(tmp_path, "model", DISK))
    kept.put(numbered(1))
    assert list(tmp_path.iterdir()) == []
    kept.put(numbered(2))
    assert read_all(tmp_path) == [numbered(1)]
    assert kept.take(numbered(1).outline) == numbered(1)
    kept.flush()
    assert len(read_all(tmp_path)) == 2
    assert kept.failures == 0


def test_a_disk_that_is_full_is_noted(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    kept = Snapshots(0, SnapshotFiles(tmp_path, "model", DISK))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, limits[1]))
    try:
        kept.put(numbered(1, 100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert kept.failures == 1
    assert "too large" in (kept.last_failure or "")
    assert list(tmp_path.iterdir()) == []
    assert [*kept.outlines()] == []


def test_a_folder_that_is_gone_is_noted(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    kept = Snapshots(0, SnapshotFiles(folder, "model", DISK))
    folder.rmdir()
    kept.put(numbered(1))
    assert kept.failures == 1


def test_a_folder_that_cannot_be_one(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")
    with pytest.raises(RequestError, match=r"file cannot be used for snapshots: .*--cache-dir"):
        SnapshotFiles(path, "model", DISK)


def test_the_same_is_not_written_twice(tmp_path: Path) -> None:
    (path,) = store(tmp_path, SNAPSHOT)
    number = path.stat().st_ino
    store(tmp_path, SNAPSHOT)
    assert path.stat().st_ino == number
    files = SnapshotFiles(tmp_path, "model", DISK)
    assert files.amount == Amount(1, 4, path.stat().st_size)
