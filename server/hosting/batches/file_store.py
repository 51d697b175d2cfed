"""Files that clients upload and that batches write, in memory and optionally also in a folder. Only
its owner can use a file."""

import asyncio
import time
from collections.abc import Callable, Iterator

from server.errors import HttpError, refuse
from server.hosting.batches.batch import StoredFile
from server.hosting.batches.batch_folder import BatchFolder


class FileStore:
    """Files by their ids, oldest first. For the event loop only.

    No file is deleted to make room: if there is no room, the new file is refused.

    Args:
        max_files: the maximum number of files of one owner.
        max_bytes: the maximum bytes of all files of one owner.
        clock: returns the seconds since 1970.
        folder: where they are also saved; None: they are only in memory.
    """

    def __init__(
        self,
        max_files: int,
        max_bytes: int,
        clock: Callable[[], float] = time.time,
        folder: BatchFolder | None = None,
    ):
        self._folder = folder
        self._max_files = max_files
        self._max_bytes = max_bytes
        self._clock = clock
        self._files: dict[str, StoredFile] = {}

    def add(self, file: StoredFile) -> None:
        """Adds a file.

        Raises:
            HttpError: its owner has too many files, or too large ones.
        """
        self._check_new(file)
        if self._folder is not None:
            self._folder.write_file(file)
        self._files[file.id] = file

    async def receive(self, file: StoredFile) -> None:
        """Like `add`, for a file that may be large: it is saved in a thread."""
        self._check_new(file)
        if self._folder is not None:
            await asyncio.to_thread(self._folder.write_file, file)
            try:
                self._check_new(file)  # others may have been added by now
            except HttpError:
                self._folder.remove_file(file.id)
                raise
        self._files[file.id] = file

    def restore(self, file: StoredFile) -> None:
        """Adds a file that was read from the folder."""
        self._files[file.id] = file

    def _check_new(self, file: StoredFile) -> None:
        own = [*self.list_files(file.owner)]
        if len(own) >= self._max_files:
            message = f"there are {len(own):,} files already: delete some"
            raise refuse(message, code="too_many_files")
        self._check_room(file.owner, len(file.content))

    def append(self, file: StoredFile, content: bytes) -> None:
        """Appends to a file; does nothing if it was deleted.

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
            raise refuse(message, code="storage_full")

    def get(self, owner: str, id: str) -> StoredFile:
        """Returns the file with this id.

        Raises:
            HttpError: the owner has none.
        """
        self._drop_expired()
        file = self._files.get(id)
        if file is None or file.owner != owner:
            raise HttpError(404, f"there is no file {id!r}", "not_found")
        return file

    def delete(self, owner: str, id: str) -> None:
        """Deletes a file.

        Raises:
            HttpError: the owner has none of this id.
        """
        self._forget(self.get(owner, id))

    def _forget(self, file: StoredFile) -> None:
        if self._folder is not None:
            self._folder.remove_file(file.id)
        del self._files[file.id]

    def list_files(self, owner: str) -> Iterator[StoredFile]:
        """Yields the owner's files, oldest first."""
        self._drop_expired()
        return (file for file in [*self._files.values()] if file.owner == owner)

    def _drop_expired(self) -> None:
        now = self._clock()
        for file in [*self._files.values()]:
            if file.expires_at is not None and file.expires_at <= now:
                self._forget(file)
