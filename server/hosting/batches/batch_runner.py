"""Runs batches, a few lines at a time. Live requests have priority."""

import asyncio
import json
import logging
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Literal

from starlette.types import ASGIApp

from server.dialects.common.serving import name_owner
from server.errors import HttpError, refuse
from server.hosting.batches.batch import BatchRequest, BatchStatus, RequestBatch, StoredFile
from server.hosting.batches.batch_folder import BatchFolder
from server.hosting.batches.batch_input import (
    ENDPOINTS,
    BatchInput,
    LineFault,
    LineResult,
    fail_line,
    read_lines,
)
from server.hosting.batches.file_store import FileStore
from server.hosting.batches.line_runner import run_line
from server.http.disconnects import do_together
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


class LinePlaces:
    """Where lines of all batches are executed: at most half of the model's sequences at a time, and
    none while live requests wait for a sequence.

    Args:
        models: the models of the server.
    """

    def __init__(self, models: ServedModels):
        self._models = models
        self._places: asyncio.Semaphore | None = None
        self.is_draining = False

    async def count(self) -> int:
        """Returns the number of lines that are executed at a time, once the server has started."""
        while self._models.is_starting:
            await asyncio.sleep(BUSY_SECONDS)
        return max(1, self._models.measure().sequences // 2)

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Waits for a place, and holds it inside the `with` block."""
        if self._places is None:
            self._places = asyncio.Semaphore(await self.count())
        async with self._places:
            while not self.is_draining and self._models.measure().waiting:
                await asyncio.sleep(LOOK_SECONDS)
            yield


class BatchRunner:
    """The batches of a server, in memory, and perhaps in a folder as well: then those that are not
    done go on when the server is back. For its event loop alone.

    Each owner has one batch in progress, the others wait for it.

    Args:
        app: the routes of all dialects, without the gate.
        models: the models of the server.
        settings: limits, and the folder.

    Raises:
        RequestError: the folder cannot be used.
    """

    def __init__(self, app: ASGIApp, models: ServedModels, settings: Settings):
        max_bytes = settings.max_files_bytes
        self._folder: BatchFolder | None = None
        if settings.batch_dir is not None:
            self._folder = BatchFolder(settings.batch_dir, max_bytes)
        self.files = FileStore(settings.max_files, max_bytes, folder=self._folder)
        self._keys = {"": b""}
        if settings.api_keys:
            self._keys = {name_owner(key.encode()): key.encode() for key in settings.api_keys}
        self._app = app
        self._settings = settings
        self._places = LinePlaces(models)
        self._batches: dict[str, RequestBatch] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)  # by owner

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
        if self._places.is_draining:
            raise HttpError(503, STOPPED.message, STOPPED.code)
        self._make_room(owner)
        batch = RequestBatch(owner, key, request, window=request.read_window())
        self._save(batch)
        self._begin(batch)
        return batch

    def _begin(self, batch: RequestBatch) -> None:
        self._batches[batch.id] = batch
        run = _BatchRun(batch, self._app, self.files, places=self._places, save=self._save)
        work = run.carry_out(self._settings, self._turns[batch.owner], is_saved=bool(self._folder))
        task = self._tasks[batch.id] = asyncio.create_task(work)
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
            if batch.owner in self._keys:
                batch.key = self._keys[batch.owner]
                batch.elapsed = max(0.0, time.time() - batch.created_at)
                LOG.info("%s goes on", batch.id)
                self._begin(batch)
            else:
                message = "the API key of the batch does not exist any more"
                batch.fail(LineFault("invalid_api_key", message))
                with suppress(HttpError):  # it is in the log
                    self._save(batch)

    def _save(self, batch: RequestBatch) -> None:
        """Writes how far a batch is.

        Raises:
            HttpError: the folder cannot be written.
        """
        if self._folder is not None:
            self._folder.write_batch(batch)

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
            batch.reach(BatchStatus.CANCELLING)
            with suppress(HttpError):  # it is in the log
                self._save(batch)
            self._tasks[batch.id].cancel()

    def drain(self) -> None:
        """Begins no more lines; those under way go on."""
        self._places.is_draining = True

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


class _BatchRun:
    """A batch that is being executed.

    Args:
        batch: the batch.
        app: the routes of all dialects, without the gate.
        files: have the lines, and get the results.
        places: where lines are executed.
        save: writes how far the batch is; raises HttpError if that is not possible.
    """

    def __init__(
        self,
        batch: RequestBatch,
        app: ASGIApp,
        files: FileStore,
        *,
        places: LinePlaces,
        save: Callable[[RequestBatch], None],
    ):
        self._batch = batch
        self._app = app
        self._files = files
        self._places = places
        self._save = save

    async def carry_out(self, settings: Settings, turn: asyncio.Lock, *, is_saved: bool) -> None:
        """Executes all of the batch.

        Args:
            settings: limits of the lines.
            turn: held while the batch is in progress: its owner has one at a time.
            is_saved: the batch goes on with the next server if this one stops.
        """
        batch = self._batch
        reason: HttpError | None = None
        try:
            was_started = batch.status is not BatchStatus.VALIDATING  # by an earlier server
            if was_started:
                await self._read(settings)
            if batch.status is BatchStatus.CANCELLING:
                raise asyncio.CancelledError  # once more: the server stopped meanwhile
            async with asyncio.timeout(max(0.0, batch.window - batch.elapsed)), turn:
                if not was_started:
                    # Only now: of the batches that wait, nothing but their files is in memory.
                    await self._read(settings)
                await self._run_lines()
            status = BatchStatus.FAILED if batch.waiting else BatchStatus.COMPLETED
        except TimeoutError:
            status, reason = BatchStatus.EXPIRED, EXPIRED
        except asyncio.CancelledError:
            status = BatchStatus.FAILED
            if batch.status is BatchStatus.CANCELLING:
                status, reason = BatchStatus.CANCELLED, CANCELLED
        except HttpError as error:
            self._give_up(error)
            return
        except Exception:
            LOG.exception("%s has failed", batch.id)
            self._give_up(HttpError(500, "the server failed; its log says why", "internal"))
            return
        if status is BatchStatus.FAILED and is_saved:  # the server stops in the middle of it
            done = batch.completed + batch.failed
            LOG.info("%s is paused at %d of %d lines", batch.id, done, batch.total)
            return
        if status is BatchStatus.FAILED:
            reason = STOPPED
        self._finish(status, reason)

    async def _read(self, settings: Settings) -> None:
        """Reads the lines, in a separate thread.

        Raises:
            HttpError: there are faults, or the file was deleted.
        """
        batch = self._batch
        content = self._files.get(batch.owner, batch.request.input_file_id).content

        def read_content() -> BatchInput:
            return read_lines(
                _split_lines(content, settings.max_line + 1),
                batch.request.endpoint,
                max_values=settings.max_values,
                max_bytes=settings.max_line,
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

    async def _run_lines(self) -> None:
        """Executes all lines; ends early if the server stops.

        Raises:
            HttpError: there is no room for the results.
        """
        count = await self._places.count()
        if self._batch.status is not BatchStatus.IN_PROGRESS:
            self._reach(BatchStatus.IN_PROGRESS)
        await do_together(self._take_lines() for _ in range(count))

    async def _take_lines(self) -> None:
        """Executes one line after the other until there are none left."""
        batch = self._batch
        while True:
            async with self._places.take():
                if self._places.is_draining or not batch.waiting:
                    return
                line = batch.waiting.pop()
                try:
                    result = await run_line(self._app, line, batch.key)
                except asyncio.CancelledError:
                    batch.waiting.append(line)
                    raise
                if not result.may_retry:
                    self._note(result)
                    continue
                batch.waiting.append(line)
                if self._places.is_draining:
                    return
            # Without its place: lines of other batches may be for a model that has room.
            await asyncio.sleep(BUSY_SECONDS)

    def _note(self, result: LineResult) -> None:
        """Writes the result of a line to the output, or to the error file.

        Raises:
            HttpError: there is no room for it.
        """
        batch = self._batch
        if result.is_complete:
            batch.output = batch.output or self._make_file("output")
            self._files.append(batch.output, result.encode())
            batch.completed += 1
        else:
            batch.errors = batch.errors or self._make_file("errors")
            self._files.append(batch.errors, result.encode())
            batch.failed += 1

    def _make_file(self, name: Literal["output", "errors"]) -> StoredFile:
        batch = self._batch
        expiry = batch.request.output_expires_after
        file = StoredFile(
            batch.owner,
            f"{batch.id}_{name.removesuffix('s')}.jsonl",
            "batch_output",
            lifetime=None if expiry is None else expiry.seconds,
        )
        self._files.add(file)
        setattr(batch, name, file)
        self._save(batch)  # before the first result: the next server looks for it there
        return file

    def _reach(self, status: BatchStatus) -> None:
        """The batch has come to a status. If that cannot be written, the next server finds it less
        far than it is, and its answered lines all the same."""
        self._batch.reach(status)
        with suppress(HttpError):  # it is in the log
            self._save(self._batch)

    def _finish(self, status: BatchStatus, reason: HttpError | None) -> None:
        """Ends the batch; lines that were not executed get a reason."""
        batch = self._batch
        try:
            while batch.waiting and reason is not None:
                self._note(fail_line(batch.waiting[-1], reason))
                batch.waiting.pop()
        except HttpError as error:
            batch.faults = (*batch.faults, LineFault(error.code, error.message))
            batch.waiting.clear()
        if status is BatchStatus.FAILED and reason is not None:
            batch.faults = (*batch.faults, LineFault(reason.code, reason.message))
        self._reach(status)
        LOG.info("%s is %s: %d of %d lines", batch.id, status, batch.completed, batch.total)

    def _give_up(self, error: HttpError) -> None:
        """The end of a batch that nothing more can come of."""
        self._batch.fail(LineFault(error.code, error.message))
        with suppress(HttpError):  # it is in the log
            self._save(self._batch)


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
