"""Files: whose they are, how many, and how long."""

import pytest

from server.errors import HttpError
from server.hosting.batches.file_store import FileStore, StoredFile


def make_file(owner: str = "me", content: bytes = b"", lifetime: int | None = None) -> StoredFile:
    return StoredFile(owner, "f", "batch", lifetime=lifetime, content=bytearray(content))


def test_a_file_is_its_owners() -> None:
    store = FileStore(9, 9)
    file = make_file()
    store.add(file)
    assert store.get("me", file.id) is file
    assert [*store.list_files("you")] == []
    for act in (store.get, store.delete):
        with pytest.raises(HttpError) as raised:
            act("you", file.id)
        assert raised.value.status == 404
    store.delete("me", file.id)
    assert [*store.list_files("me")] == []


def test_no_file_is_forgotten_for_another_one() -> None:
    store = FileStore(2, 10)
    store.add(make_file(content=b"123456"))
    with pytest.raises(HttpError, match="6 are used and 5 more"):
        store.add(make_file(content=b"12345"))
    store.add(make_file(owner="you", content=b"12345"))  # each has a room of their own
    grown = make_file()
    store.add(grown)
    store.append(grown, b"1234")
    with pytest.raises(HttpError) as raised:
        store.append(grown, b"5")
    assert raised.value.code == "storage_full"
    assert grown.content == b"1234"
    with pytest.raises(HttpError, match="2 files already"):
        store.add(make_file())


def test_a_deleted_file_grows_no_more() -> None:
    store = FileStore(2, 10)
    file = make_file()
    store.add(file)
    store.delete("me", file.id)
    store.append(file, b"1234")
    assert file.content == b""


def test_files_expire() -> None:
    now = 0.0
    store = FileStore(1, 10, clock=lambda: now)
    file = make_file(content=b"1234567890", lifetime=5)
    store.add(file)
    now = file.created_at + 4.9
    assert store.get("me", file.id).describe()["expires_at"] == file.created_at + 5
    now = file.created_at + 5
    with pytest.raises(HttpError):
        store.get("me", file.id)
    store.add(make_file(content=b"1234567890"))  # its room is free again
