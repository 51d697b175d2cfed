"""Saves files and batches in a folder, so that they survive a restart of the server. The folder
contains all requests and replies of batches, unencrypted.

A file has its content (`ID.data`) and its metadata (`ID.json`); a batch has `ID.json`. API keys are
not saved, only the hash of the owner's key.
"""

import fcntl
import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from constrained.engine.files.private_files import (
    PRIVATE_FILE,
    make_private,
    open_private,
    replace_file,
)
from constrained.engine.files.stored import skipping
from constrained.errors import RequestError
from grammars.schema.json_values import JsonObject
from server.errors import HttpError
from server.hosting.batches.batch import RequestBatch, StoredFile

LOG = logging.getLogger("constrained.server")
MAX_RECORD = 1 << 20  # bytes
LOCK = ".lock"
FILE_RECORD = re.compile(r"file-[0-9a-f]{24}\.json")
BATCH_RECORD = re.compile(r"batch_[0-9a-f]{24}\.json")
OWN = re.compile(r"(file-|batch_)[0-9a-f]{24}\.(json|data)|\.lock$")
"""The names of the files that belong to this folder."""


_FILES = TypeAdapter(StoredFile)
_BATCHES = TypeAdapter(RequestBatch)
_OF_PROCESS = {"key", "waiting", "elapsed"}
"""Fields of a batch that are not saved."""


@dataclass(frozen=True)
class FolderContent:
    """The files and batches that were read from a folder, oldest first."""

    files: list[StoredFile]
    batches: list[RequestBatch]


class BatchFolder:
    """A folder of files and batches, for one server at a time.

    Damaged files are skipped, with a line in the log. Only regular files of this user or root are
    read; everything is private to the user.

    Args:
        path: the folder; it is created if necessary.
        max_bytes: the maximum bytes of a file.

    Raises:
        RequestError: the folder cannot be used, or another server uses it.
    """

    def __init__(self, path: Path, max_bytes: int):
        self._path = path
        self._max_bytes = max_bytes
        try:
            if not make_private(path, OWN):
                message = (
                    f"other users can access {path}, and it has files that do not belong to batches"
                )
                hint = "Choose a folder only for batches (--batch-dir), or make this one private"
                raise RequestError(message, hint=hint)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._lock = os.fdopen(os.open(path / LOCK, flags, PRIVATE_FILE), "rb+")
        except OSError as error:
            message = f"{path} cannot be used for batches: {error.strerror}"
            raise RequestError(message, hint="Name another folder (--batch-dir)") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            hint = "Choose another folder (--batch-dir), or stop that server"
            message = f"another server has its batches in {path}"
            raise RequestError(message, hint=hint) from error

    def close(self) -> None:
        """Releases the folder for other servers; a second call does nothing."""
        self._lock.close()

    def read(self) -> FolderContent:
        """Reads everything that is not damaged."""
        files: dict[str, StoredFile] = {}
        batches: list[RequestBatch] = []
        for path in sorted(self._path.iterdir()):
            if FILE_RECORD.fullmatch(path.name):
                with skipping(path):
                    file = self._read_file(path)
                    files[file.id] = file
        for path in sorted(self._path.iterdir()):
            if BATCH_RECORD.fullmatch(path.name):
                with skipping(path):
                    batches.append(_read_batch(path, files))
        return FolderContent(
            files=sorted(files.values(), key=lambda file: file.created_at),
            batches=sorted(batches, key=lambda batch: batch.created_at),
        )

    def _read_file(self, path: Path) -> StoredFile:
        record = _read_record(path)
        with open_private(path.with_suffix(".data"), self._max_bytes) as file:
            content = file.read()
        if record.get("purpose") == "batch_output":
            # A line that was being written when the server ended is executed again.
            whole = content[: content.rfind(b"\n") + 1]
            for line in whole.splitlines():
                json.loads(line)
            if whole != content:
                replace_file(path.with_suffix(".data"), [whole])
            content = whole
        return _FILES.validate_python({**record, "content": bytearray(content)})

    def write_file(self, file: StoredFile) -> None:
        """Writes a new file.

        Raises:
            HttpError: the folder cannot be written.
        """
        record = _FILES.dump_python(file, mode="json", exclude={"content"})
        with self._writing():  # the metadata last: content without metadata does not count
            replace_file(self._path / f"{file.id}.data", [bytes(file.content)])
            self._write_record(record)

    def append(self, file: StoredFile, content: bytes) -> None:
        """Appends to a file.

        Raises:
            HttpError: the folder cannot be written.
        """
        flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        with self._writing():
            handle = os.open(self._path / f"{file.id}.data", flags)
            with os.fdopen(handle, "ab") as data:
                data.write(content)

    def remove_file(self, id: str) -> None:
        """Deletes a file."""
        with self._writing():  # the metadata first: see above
            (self._path / f"{id}.json").unlink(missing_ok=True)
            (self._path / f"{id}.data").unlink(missing_ok=True)

    def write_batch(self, batch: RequestBatch) -> None:
        """Saves the state of a batch.

        Raises:
            HttpError: the folder cannot be written.
        """
        record = _BATCHES.dump_python(batch, mode="json", exclude=_OF_PROCESS)
        for name in ("output", "errors"):
            file: StoredFile | None = getattr(batch, name)
            record[name] = None if file is None else file.id
        with self._writing():
            self._write_record(record)

    def remove_batch(self, id: str) -> None:
        """Deletes a batch, but not its files."""
        with self._writing():
            (self._path / f"{id}.json").unlink(missing_ok=True)

    def _write_record(self, record: JsonObject) -> None:
        text = json.dumps(record)  # ASCII: names may have any characters
        replace_file(self._path / f"{record['id']}.json", [text.encode()])

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            LOG.error("%s cannot be written: %s", self._path, error.strerror)
            message = f"the folder of batches cannot be written: {error.strerror}"
            raise HttpError(503, message, "storage_failed") from error


def _read_record(path: Path) -> JsonObject:
    """Reads the metadata of a file or a batch. Lone surrogates become question marks, because no
    reply could contain them."""
    with open_private(path, MAX_RECORD) as file:
        text = json.dumps(json.loads(file.read()), ensure_ascii=False)
    record: JsonObject = json.loads(text.encode(errors="replace"))
    if record["id"] != path.stem:
        raise ValueError("it has the id of another batch")
    return record


def _read_batch(path: Path, files: Mapping[str, StoredFile]) -> RequestBatch:
    """Reads a batch. Its API key is not known yet.

    Raises:
        ValueError: it is damaged; or it is unfinished, and a file of its results is damaged, so
            finished lines would be executed again.
    """
    record = _read_record(path)
    ids = {name: record[name] for name in ("output", "errors")}
    found = {name: files.get(id) for name, id in ids.items()}
    batch = _BATCHES.validate_python({**record, **found, "key": b""})
    for name, id in ids.items():
        if id is not None and found[name] is None and not batch.is_finished:
            raise ValueError(f"its file {id} is not there")
    return batch
