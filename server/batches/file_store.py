"""Files that clients send and that batches write: in memory, and perhaps in a folder as well; each
its owner's alone."""

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NotRequired, Protocol

from typing_extensions import TypedDict

from server.errors import HttpError
from server.ids import make_id

PREFIX = "file-"


class DescribedFile(TypedDict):
    """A file as OpenAI's clients read it; times are seconds since 1970."""

    id: str
    object: Literal["file"]
    bytes: int
    created_at: int
    filename: str
    purpose: str
    status: Literal["processed"]
    status_details: None
    expires_at: NotRequired[int]


@dataclass
class StoredFile:
    """A file; one that a batch writes grows.

    Args:
        owner: nobody else finds it.
        name: that the client has given, or that of the batch.
        purpose: OpenAI's: `batch` for input, `batch_output` for what a batch writes.
        lifetime: in seconds; None: until it is deleted.
    """

    owner: str
    name: str
    purpose: str
    lifetime: int | None = None
    content: bytearray = field(default_factory=bytearray)
    id: str = field(default_factory=lambda: make_id(PREFIX))
    created_at: int = field(default_factory=lambda: int(time.time()))

    @property
    def expires_at(self) -> int | None:
        """The second since 1970 from which on it is gone; None: it stays."""
        return None if self.lifetime is None else self.created_at + self.lifetime

    def describe(self) -> DescribedFile:
        """The file as OpenAI's clients read it."""
        described: DescribedFile = {
            "id": self.id,
            "object": "file",
            "bytes": len(self.content),
            "created_at": self.created_at,
            "filename": self.name,
            "purpose": self.purpose,
            "status": "processed",
            "status_details": None,
        }
        if self.expires_at is not None:
            described["expires_at"] = self.expires_at
        return described


class FileFolder(Protocol):
    """A folder that files are in as well; see `BatchFolder`."""

    def write_file(self, file: StoredFile) -> None: ...

    def append(self, file: StoredFile, content: bytes) -> None: ...

    def remove_file(self, id: str) -> None: ...


class FileStore:
    """Files by their ids, in the order in which they came. For the event loop alone.

    Nothing is forgotten to make room: a file that finds none is refused.

    Args:
        max_files: files of one owner.
        max_bytes: of all files of one owner.
        clock: seconds since 1970.
        folder: that they are in as well; None: they are in memory alone.
    """

    def __init__(
        self,
        max_files: int,
        max_bytes: int,
        clock: Callable[[], float] = time.time,
        folder: FileFolder | None = None,
    ):
        self._folder = folder
        self._max_files = max_files
        self._max_bytes = max_bytes
        self._clock = clock
        self._files: dict[str, StoredFile] = {}

    def add(self, file: StoredFile) -> None:
        """Keeps a file.

        Raises:
            HttpError: its owner has too many files, or too large ones.
        """
        self._check_new(file)
        if self._folder is not None:
            self._folder.write_file(file)
        self._files[file.id] = file

    async def receive(self, file: StoredFile) -> None:
        """As `add`, for a file that may be large: it is written beside the event loop."""
        self._check_new(file)
        if self._folder is not None:
            await asyncio.to_thread(self._folder.write_file, file)
            try:
                self._check_new(file)  # there may be others meanwhile
            except HttpError:
                self._folder.remove_file(file.id)
                raise
        self._files[file.id] = file

    def restore(self, file: StoredFile) -> None:
        """Takes over a file that the folder has."""
        self._files[file.id] = file

    def _check_new(self, file: StoredFile) -> None:
        own = [*self.list_files(file.owner)]
        if len(own) >= self._max_files:
            message = f"there are {len(own):,} files already: delete some"
            raise HttpError(400, message, "too_many_files")
        self._check_room(file.owner, len(file.content))

    def append(self, file: StoredFile, content: bytes) -> None:
        """Adds to a file; does nothing if it was deleted.

        Raises:
            HttpError: its owner has no room left.
        """
        if file.id in self._files:
            self._check_room(file.owner, len(content))
            if self._folder is not None:
                self._folder.append(file, content)
            file.content += content

    def _check_room(self, owner: str, size: int) -> None:
        used = sum(len(file.content) for file in self.list_files(owner))
        if used + size > self._max_bytes:
            message = (
                f"the files together may have {self._max_bytes:,} bytes, {used:,} are used and "
                f"{size:,} more are needed: delete files, or start the server with --max-files"
            )
            raise HttpError(400, message, "storage_full")

    def get(self, owner: str, id: str) -> StoredFile:
        """The file of this id.

        Raises:
            HttpError: the owner has none.
        """
        self._drop_expired()
        file = self._files.get(id)
        if file is None or file.owner != owner:
            raise HttpError(404, f"there is no file {id!r}", "not_found")
        return file

    def delete(self, owner: str, id: str) -> None:
        """Forgets a file.

        Raises:
            HttpError: the owner has none of this id.
        """
        self._forget(self.get(owner, id))

    def _forget(self, file: StoredFile) -> None:
        if self._folder is not None:
            self._folder.remove_file(file.id)
        del self._files[file.id]

    def list_files(self, owner: str) -> Iterator[StoredFile]:
        """The owner's files, the oldest first."""
        self._drop_expired()
        return (file for file in [*self._files.values()] if file.owner == owner)

    def _drop_expired(self) -> None:
        now = self._clock()
        for file in [*self._files.values()]:
            if file.expires_at is not None and file.expires_at <= now:
                self._forget(file)
