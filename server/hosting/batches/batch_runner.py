"""Runs batches, a few lines at a time. Live requests have priority."""

import asyncio
import json
import logging
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress

from starlette.types import ASGIApp

from server.dialects.common.serving import name_owner
from server.errors import HttpError, refuse
from server.hosting.batches.batch import BatchRequest, BatchStatus, RequestBatch
from server.hosting.batches.batch_folder import BatchFolder
from server.hosting.batches.batch_input import (
    ENDPOINTS,
    BatchInput,
    LineFault,
    LineResult,
    fail_line,
    read_lines,
)
from server.hosting.batches.file_store import FileStore, StoredFile
from server.hosting.batches.line_runner import run_line
from server.models.served_models import ServedModels
from server.settings import Settings
from server.turns.request_checks import check_echoed

LOG = logging.getLogger("constrained.server")
LOOK_SECONDS = 0.05  # between two looks whether live requests still wait
BUSY_SECONDS = 1.0  # until a line is tried again that the server had no room for
EXPIRED = HttpError(
    504,
    "This request could not be executed before the completion window expired.",
    "batch_expired",
)
CANCELLED = HttpError(
    400, "This request was not executed because the batch was cancelled.", "batch_cancelled"
)
STOPPED = HttpError(
    503, "This request was not executed because the server stops.", "server_stopped"
)


class BatchRunner:
    """The batches of a server, in memory, and perhaps in a folder as well: then those that are not
    done go on when the server is back. For its event loop alone.

    Each owner has one batch in progress, the others wait for it. All batches together take at most
    half of the model's sequences, and begin no line while live requests wait for a sequence.

    Args:
        app: the routes of all dialects, without the gate.
        models: the models of the server.
        settings: limits, and the folder.

    Raises:
        RequestError: the folder cannot be used.
    """

    def __init__(self, app: ASGIApp, models: ServedModels, settings: Settings):
        self._folder: BatchFolder | None = None
        if settings.batch_dir is not None:
            self._folder = BatchFolder(settings.batch_dir, settings.max_files_bytes)
        max_bytes = settings.max_files_bytes
        self.files = FileStore(settings.max_files, max_bytes, folder=self._folder)
        self._keys = {"": b""} if not settings.api_keys else _name_owners(settings.api_keys)
        self._app = app
        self._models = models
        self._settings = settings
        self._batches: dict[str, RequestBatch] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)  # by owner
        self._places: asyncio.Semaphore | None = None
        self._is_draining = False

    def create(self, owner: str, key: bytes, request: BatchRequest) -> RequestBatch:
        """Begins a batch.

        Raises:
            HttpError: there is no such file or endpoint, or too many batches are unfinished.
        """
        if request.endpoint not in ENDPOINTS:
            message = f"endpoint is {request.endpoint!r}, must be one of {', '.join(ENDPOINTS)}"
            raise refuse(message, "/endpoint")
        check_echoed({"metadata": request.metadata}, self._settings)
        file = self.files.get(owner, request.input_file_id)
        if file.purpose != "batch":
            message = f"the file {file.id} is {file.purpose}, not an input of a batch"
            raise refuse(message, "/input_file_id")
        if self._is_draining:
            raise HttpError(503, STOPPED.message, STOPPED.code)
        self._make_room(owner)
        batch = RequestBatch(owner, key, request, window=request.read_window())
        self._save(batch)
        self._begin(batch)
        return batch

    def _begin(self, batch: RequestBatch) -> None:
        self._batches[batch.id] = batch
        task = asyncio.create_task(self._carry_out(batch))
        self._tasks[batch.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(batch.id, None))

    async def resume(self) -> None:
        """Takes over the files and the batches of the folder, if there is one; batches that are not
        done go on."""
        if self._folder is None:
            return
        found = await asyncio.to_thread(self._folder.read)
        for file in found.files:
            self.files.restore(file)
        for batch in found.batches:
            self._batches[batch.id] = batch
            if batch.is_finished:
                continue
            if batch.owner not in self._keys:
                error = HttpError(
                    401, "the API key of the batch does not exist any more", "invalid_api_key"
                )
                self._give_up(batch, error)
                continue
            batch.key = self._keys[batch.owner]
            batch.elapsed = max(0.0, time.time() - batch.created_at)
            LOG.info("%s goes on", batch.id)
            self._begin(batch)

    def _save(self, batch: RequestBatch) -> None:
        """Writes how far a batch is.

        Raises:
            HttpError: the folder cannot be written.
        """
        if self._folder is not None:
            self._folder.write_batch(batch)

    def _reach(self, batch: RequestBatch, status: BatchStatus) -> None:
        """A batch has come to a status. If that cannot be written, the next server finds it less
        far than it is, and its answered lines all the same."""
        batch.reach(status)
        with suppress(HttpError):  # it is in the log
            self._save(batch)

    def _make_room(self, owner: str) -> None:
        """Deletes the oldest finished batches of an owner with too many.

        Raises:
            HttpError: too many are unfinished.
        """
        own = self.list_batches(owner)
        while len(own) >= self._settings.max_batches:
            oldest = next((batch for batch in own if batch.is_finished), None)
            if oldest is None:
                message = f"{len(own)} batches are not finished yet: wait, or cancel some"
                raise refuse(message, code="too_many_batches")
            own.remove(oldest)
            if self._folder is not None:
                self._folder.remove_batch(oldest.id)
            del self._batches[oldest.id]

    def get(self, owner: str, id: str) -> RequestBatch:
        """Returns the batch of this id.

        Raises:
            HttpError: the owner has none.
        """
        batch = self._batches.get(id)
        if batch is None or batch.owner != owner:
            raise HttpError(404, f"there is no batch {id!r}", "not_found")
        return batch

    def list_batches(self, owner: str) -> list[RequestBatch]:
        """Returns the owner's batches, the oldest first."""
        return [batch for batch in self._batches.values() if batch.owner == owner]

    def cancel(self, batch: RequestBatch) -> None:
        """Ends a batch: turns under way within one step.

        Raises:
            HttpError: it is finished already.
        """
        if batch.is_finished:
            raise refuse(f"the batch is {batch.status} already")
        if batch.status is not BatchStatus.CANCELLING:
            self._reach(batch, BatchStatus.CANCELLING)
            self._tasks[batch.id].cancel()

    def drain(self) -> None:
        """Begins no more lines; those under way go on."""
        self._is_draining = True

    async def stop(self) -> None:
        """Ends all batches: lines under way have the server's time to stop. Batches of which any
        are left fail, or, if there is a folder, go on with the next server."""
        self.drain()
        tasks = [*self._tasks.values()]
        for batch in self._batches.values():
            if batch.status is BatchStatus.VALIDATING and batch.id in self._tasks:
                self._tasks[batch.id].cancel()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=self._settings.drain_seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if self._folder is not None:
            self._folder.close()

    async def _carry_out(self, batch: RequestBatch) -> None:
        """All of a batch, from its lines to its end."""
        try:
            was_started = batch.status is not BatchStatus.VALIDATING  # by an earlier server
            if was_started:
                await self._read(batch)
            if batch.status is BatchStatus.CANCELLING:
                self._finish(batch, BatchStatus.CANCELLED, CANCELLED)
                return
            seconds_left = max(0.0, batch.window - batch.elapsed)
            async with asyncio.timeout(seconds_left), self._turns[batch.owner]:
                if not was_started:
                    # Only now: of the batches that wait, nothing but their files is in memory.
                    await self._read(batch)
                await self._run_lines(batch)
        except TimeoutError:
            self._finish(batch, BatchStatus.EXPIRED, EXPIRED)
        except asyncio.CancelledError:
            if batch.status is BatchStatus.CANCELLING:
                self._finish(batch, BatchStatus.CANCELLED, CANCELLED)
            else:
                self._leave(batch)
        except HttpError as error:
            self._give_up(batch, error)
        except Exception:
            LOG.exception("%s has failed", batch.id)
            self._give_up(batch, HttpError(500, "the server failed; its log says why", "internal"))

    async def _read(self, batch: RequestBatch) -> None:
        """Reads the lines, in a separate thread.

        Raises:
            HttpError: there are faults, or the file was deleted.
        """
        content = self.files.get(batch.owner, batch.request.input_file_id).content
        endpoint = batch.request.endpoint

        def read_content() -> BatchInput:
            return read_lines(
                _split_lines(content, self._settings.max_line + 1),
                endpoint,
                max_values=self._settings.max_values,
                max_bytes=self._settings.max_line,
            )

        read = await asyncio.to_thread(read_content)
        if read.faults:
            batch.faults = read.faults
            raise refuse(f"{len(read.faults)} lines are wrong", code="invalid_input")
        answered = _list_answered(batch.output)
        failed = _list_answered(batch.errors)
        batch.total = len(read.lines)
        batch.completed = len(answered)
        batch.failed = len(failed)
        done = answered | failed
        batch.waiting = [line for line in reversed(read.lines) if line.custom_id not in done]

    async def _run_lines(self, batch: RequestBatch) -> None:
        """Executes all lines; ends early if the server stops.

        Raises:
            HttpError: there is no room for the results.
        """
        places = await self._find_places()
        if batch.status is not BatchStatus.IN_PROGRESS:
            self._reach(batch, BatchStatus.IN_PROGRESS)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._count_places()):
                    group.create_task(self._take_lines(batch, places))
        except ExceptionGroup as errors:  # one is enough: it has ended the other tasks
            raise errors.exceptions[0] from None
        if batch.waiting:
            self._leave(batch)
        else:
            self._finish(batch, BatchStatus.COMPLETED)

    async def _find_places(self) -> asyncio.Semaphore:
        while self._models.is_starting:
            await asyncio.sleep(BUSY_SECONDS)
        if self._places is None:
            self._places = asyncio.Semaphore(self._count_places())
        return self._places

    def _count_places(self) -> int:
        """Returns the number of lines of all batches that are executed at a time."""
        return max(1, self._models.measure().sequences // 2)

    async def _take_lines(self, batch: RequestBatch, places: asyncio.Semaphore) -> None:
        """Executes one line after the other until there are none left."""
        while True:
            async with places:
                await self._wait_for_live_requests()
                if self._is_draining or not batch.waiting:
                    return
                line = batch.waiting.pop()
                try:
                    result = await run_line(self._app, line, batch.key)
                except asyncio.CancelledError:
                    batch.waiting.append(line)
                    raise
                if not result.may_retry:
                    self._note(batch, result)
                    continue
                batch.waiting.append(line)
                if self._is_draining:
                    return
            # Without its place: lines of other batches may be for a model that has room.
            await asyncio.sleep(BUSY_SECONDS)

    async def _wait_for_live_requests(self) -> None:
        """Waits until no request waits for a sequence."""
        while not self._is_draining:
            if not self._models.measure().waiting:
                return
            await asyncio.sleep(LOOK_SECONDS)

    def _note(self, batch: RequestBatch, result: LineResult) -> None:
        """Writes the result of a line to the output, or to the error file.

        Raises:
            HttpError: there is no room for it.
        """
        if result.is_complete:
            if batch.output is None:
                batch.output = self._make_file(batch, "output")
                self._save(batch)  # before the first result: the next server looks for it there
            self.files.append(batch.output, result.encode())
            batch.completed += 1
        else:
            if batch.errors is None:
                batch.errors = self._make_file(batch, "error")
                self._save(batch)
            self.files.append(batch.errors, result.encode())
            batch.failed += 1

    def _make_file(self, batch: RequestBatch, kind: str) -> StoredFile:
        expiry = batch.request.output_expires_after
        file = StoredFile(
            batch.owner,
            f"{batch.id}_{kind}.jsonl",
            "batch_output",
            lifetime=None if expiry is None else expiry.seconds,
        )
        self.files.add(file)
        return file

    def _leave(self, batch: RequestBatch) -> None:
        """The server stops in the middle of a batch."""
        if self._folder is None:
            self._finish(batch, BatchStatus.FAILED, STOPPED)
        else:
            LOG.info("%s is paused at %d of %d lines", batch.id, _count_done(batch), batch.total)

    def _finish(
        self, batch: RequestBatch, status: BatchStatus, reason: HttpError | None = None
    ) -> None:
        """Ends a batch; lines that were not executed get a reason."""
        try:
            while batch.waiting and reason is not None:
                self._note(batch, fail_line(batch.waiting[-1], reason))
                batch.waiting.pop()
        except HttpError as error:
            batch.faults = (*batch.faults, LineFault(error.code, error.message))
            batch.waiting.clear()
        if status is BatchStatus.FAILED and reason is not None:
            batch.faults = (*batch.faults, LineFault(reason.code, reason.message))
        self._reach(batch, status)
        LOG.info("%s is %s: %d of %d lines", batch.id, status, batch.completed, batch.total)

    def _give_up(self, batch: RequestBatch, error: HttpError) -> None:
        """The end of a batch that nothing more can come of."""
        if not batch.faults:
            batch.faults = (LineFault(error.code, error.message),)
        batch.waiting.clear()
        self._reach(batch, BatchStatus.FAILED)
        LOG.warning("%s has failed: %s", batch.id, error.code)


def _name_owners(keys: Sequence[str]) -> dict[str, bytes]:
    """Returns the API keys by their owners."""
    owners: dict[str, bytes] = {}
    for key in keys:
        owners[name_owner(key.encode())] = key.encode()
    return owners


def _list_answered(file: StoredFile | None) -> set[str]:
    """Returns the ids of the lines with results in a file."""
    if file is None:
        return set()
    return {json.loads(line)["custom_id"] for line in file.content.splitlines()}


def _split_lines(content: bytearray, max_bytes: int) -> Iterator[bytes]:
    """Yields the lines of a file without their line ends, each cut to this many bytes."""
    begin = 0
    while begin < len(content):
        end = content.find(b"\n", begin)
        if end < 0:
            end = len(content)
        yield bytes(content[begin : min(end, begin + max_bytes)])
        begin = end + 1


def _count_done(batch: RequestBatch) -> int:
    return batch.completed + batch.failed
