"""The file of records: a SQLite file with many runs, each a list of events.

Events are only appended, each in a separate transaction. Event numbers are unique within a run. So
if two processes continue one run, the second one fails before its event has an effect.
"""

import json
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from constrained.agent.runs.record_form import read_body, read_request
from constrained.engine.files.stored import has_tables, limited_queries, reading
from constrained.errors import RequestError

VERSION = 1  # of the tables
RUNNING = "running"
_TABLES = """
CREATE TABLE runs (
    id TEXT PRIMARY KEY, created REAL NOT NULL, parent TEXT, state TEXT NOT NULL,
    request TEXT NOT NULL
);
CREATE TABLE events (
    run TEXT NOT NULL REFERENCES runs, number INTEGER NOT NULL, at REAL NOT NULL,
    kind TEXT NOT NULL, turn INTEGER NOT NULL, call INTEGER, body TEXT NOT NULL,
    PRIMARY KEY (run, number)
);
"""


class EventKind(StrEnum):
    """The kind of an event."""

    TURN = "turn"  # a turn begins
    TOOLS = "tools"  # its tools differ from those of the turn before
    REPLY = "reply"
    VERDICT = "verdict"  # a call is approved or declined
    WAITING = "waiting"  # a call waits for a verdict
    BEGUN = "begun"  # a call is about to be executed
    RESULT = "result"
    END = "end"


@dataclass(frozen=True)
class RecordedEvent:
    """An event of a run.

    Args:
        number: in the run, from 0.
        at: the time, in seconds since 1970.
        turn: the number of its turn, from 0.
        call: the number of its call in that turn, from 0.
        body: depends on the kind.
    """

    number: int
    at: float
    kind: EventKind
    turn: int
    call: int | None
    body: Mapping[str, Any]


@dataclass(frozen=True)
class ListedRun:
    """A run in the list of a store, unchecked.

    Args:
        row: of the table.
        state: as of `RecordedRun`.
    """

    row: int
    id: str
    state: str


@dataclass(frozen=True)
class RecordedRun:
    """A run in a store.

    Args:
        created: in seconds since 1970.
        parent: the run that it was forked from.
        state: "running", even if the process has died, or the reason why it ended.
        request: the request of the run.
    """

    id: str
    created: float
    parent: str | None
    state: str
    request: Mapping[str, Any]


class RunStore:
    """A file of records; it is created if it does not exist.

    Args:
        path: of the file.
        create: False: a missing file is an error.

    Raises:
        RequestError: it is another kind of file, or cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str], *, create: bool = True):
        self._path = Path(path)
        if not create and not self._path.exists():
            raise RequestError(f"there is no file {str(path)!r}", where="/record")
        try:
            # Readable only for this user, since it has the conversations. SQLite gives its other
            # files the same mode.
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
            self._database = sqlite3.connect(self._path, timeout=30, isolation_level=None)
        except (sqlite3.Error, OSError) as e:
            raise self._refuse(str(e)) from e
        try:
            self._prepare()
        except sqlite3.Error as e:
            self._database.close()
            raise self._refuse(str(e)) from e
        except BaseException:
            self._database.close()
            raise

    def _refuse(self, cause: str) -> RequestError:
        hint = "Name a file with recorded runs, or one that does not exist yet"
        message = f"{str(self._path)!r} cannot be used: {cause}"
        return RequestError(message, where="/record", hint=hint)

    def _prepare(self) -> None:
        # Text that is not UTF-8 fails as JSON later, and does not hide the other runs.
        self._database.text_factory = lambda data: data.decode("utf-8", "backslashreplace")
        execute = self._database.execute
        self._has_tables()  # before the first change: the file may be another program's
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = FULL")  # an event is on disk before it has an effect
        with self._transaction():
            if not self._has_tables():
                for statement in _TABLES.split(";"):
                    execute(statement)
                execute(f"PRAGMA user_version = {VERSION}")

    def _has_tables(self) -> bool:
        """Returns False for an empty file.

        Raises:
            RequestError: its tables are others.
        """
        (version,) = self._database.execute("PRAGMA user_version").fetchone()
        if version not in (0, VERSION):
            raise self._refuse(f"its version is {version}, this program's {VERSION}")
        if not has_tables(self._database, _TABLES if version else ""):
            raise self._refuse("it is the database of another program")
        return version == VERSION

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Runs a transaction.

        Raises:
            RequestError: SQLite fails: the disk is full, or another process has locked the file.
            sqlite3.IntegrityError: the row exists already.
        """
        try:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:  # SQLite ends it itself where the disk is full
                    self._database.execute("ROLLBACK")
                raise
        except sqlite3.IntegrityError:
            raise
        except sqlite3.Error as e:
            message = f"{str(self._path)!r} cannot be written: {e}"
            raise RequestError(message, where="/record") from e

    def close(self) -> None:
        """Closes the file."""
        self._database.close()

    def __enter__(self) -> "RunStore":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def create(self, request: Mapping[str, Any]) -> str:
        """Begins a run; returns its id."""
        id = secrets.token_hex(6)
        with self._transaction():
            self._insert(id, None, RUNNING, request)
        return id

    def _insert(self, id: str, parent: str | None, state: str, request: Mapping[str, Any]) -> None:
        row = (id, time.time(), parent, state, _write(request))
        self._database.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?)", row)

    def append(self, run: str, event: RecordedEvent, state: str | None = None) -> None:
        """Appends an event.

        Args:
            event: with the next number.
            state: the new state of the run; None: unchanged.

        Raises:
            RequestError: another process has continued this run.
        """
        try:
            with self._transaction():
                self._insert_event(run, event)
                if state is not None:
                    statement = "UPDATE runs SET state = ? WHERE id = ?"
                    self._database.execute(statement, (state, run))
        except sqlite3.IntegrityError as e:
            message = f"another process continues the run {run}"
            raise RequestError(message, where="/record", hint="Wait until it has ended") from e

    def _insert_event(self, run: str, event: RecordedEvent) -> None:
        body = _write(event.body)
        row = (run, event.number, event.at, event.kind.value, event.turn, event.call, body)
        self._database.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def list_runs(self) -> list[ListedRun]:
        """Returns all runs, the oldest first; also damaged ones."""
        statement = "SELECT rowid, id, state FROM runs ORDER BY created, rowid"
        return [ListedRun(row, str(id), str(state)) for row, id, state in self._select(statement)]

    def read_run(self, listed: ListedRun) -> RecordedRun:
        """Returns a run of the list.

        Raises:
            DamagedError: it cannot be read.
        """
        statement = "SELECT id, created, parent, state, request FROM runs WHERE rowid = ?"
        ((id, created, parent, state, request),) = self._select(statement, (listed.row,))
        with reading(f"the run {id!r}"):
            if not isinstance(id, str) or not isinstance(state, str):
                raise ValueError("it has no id or no state")
            time.localtime(created)  # the calendar has such a time
            return RecordedRun(id, created, parent, state, read_request(request, f"the run {id!r}"))

    def _select(self, statement: str, values: Sequence[str | int] = ()) -> list[tuple[Any, ...]]:
        with reading(repr(str(self._path))), limited_queries(self._database):
            return self._database.execute(statement, values).fetchall()

    def find(self, id: str) -> RecordedRun:
        """Finds a run by its id, or by a unique beginning of its id.

        Raises:
            RequestError: no run fits, several do, or the run cannot be read.
        """
        listed = self.list_runs()
        found = [run for run in listed if run.id.startswith(id)]
        exact = [run for run in found if run.id == id]
        if len(exact or found) == 1:
            return self.read_run((exact or found)[0])
        many = f"{len(found)} runs" if found else "no run"
        known = ", ".join(run.id for run in (found or listed)[-5:])
        hint = f"There are {known}" if known else "The file has no runs"
        raise RequestError(f"{many} of id {id!r}", where="/id", hint=hint)

    def read_events(self, id: str) -> list[RecordedEvent]:
        """Returns the events of a run, in order.

        Raises:
            DamagedError: one cannot be read.
        """
        statement = (
            "SELECT number, at, kind, turn, call, body FROM events WHERE run = ? ORDER BY number"
        )
        events: list[RecordedEvent] = []
        for number, at, kind, turn, call, text in self._select(statement, (id,)):
            what = f"event {number!r} of the run {id!r}"
            with reading(what):
                if not all(type(one) is int for one in (number, turn, call or 0)):
                    raise ValueError("its numbers are no integers")
                time.localtime(at)
                body = read_body(kind, text, what)
                events.append(RecordedEvent(number, at, EventKind(kind), turn, call, body))
        return events

    def fork(self, id: str, turns: int, request: Mapping[str, Any]) -> str:
        """Creates a run with the first turns of another one and their calls; returns its id.

        Raises:
            RequestError: the other run has fewer turns.
        """
        events = self.read_events(id)
        count = sum(event.kind is EventKind.REPLY for event in events)
        if not 0 <= turns <= count:
            hint = f"Use a number from 0 to {count}"
            raise RequestError(f"the run has {count} turns, not {turns}", where="/step", hint=hint)
        new = secrets.token_hex(6)
        kept = [one for one in events if one.turn < turns and one.kind is not EventKind.END]
        with self._transaction():
            self._insert(new, id, RUNNING, request)
            for number, event in enumerate(kept):
                self._insert_event(new, replace(event, number=number))
        return new


def _write(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False)
