"""What was stored earlier, and may have been damaged since or written by somebody else. Whatever is
in a record, reading it raises only `DamagedError`, which names the record. Lists skip it, with a
line in the log."""

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

from constrained.errors import RequestError
from grammars.errors import Error

LOG = logging.getLogger(__name__)
HINT = "It is damaged, or was written by another program"
STATISTICS = {("table", f"sqlite_stat{number}") for number in (1, 3, 4)}


class DamagedError(RequestError):
    """Something stored cannot be read."""


@contextmanager
def reading(what: object) -> Iterator[None]:
    """Turns every error inside the `with` block into a DamagedError, which names the record."""
    try:
        yield
    except DamagedError:
        raise  # it names a part of the record
    except Exception as error:  # whoever has damaged it decides which one
        reason, *_ = str(error).splitlines() or [""]
        if not isinstance(error, Error | OSError | ValueError):
            reason = f"{type(error).__name__}: {reason}"
        message = f"{what} cannot be read: {reason}"
        raise DamagedError(message, where="/record", hint=HINT) from error


@contextmanager
def skipping(what: object) -> Iterator[None]:
    """Skips a record that cannot be read, with a line in the log that names it."""
    try:
        with reading(what):
            yield
    except DamagedError as error:
        LOG.warning("%s (skipped)", error.message)


def has_tables(database: sqlite3.Connection, script: str) -> bool:
    """Returns whether a database has just the tables that a script creates: no view in the place of
    a table, no trigger, nothing that computes for ever."""
    with closing(sqlite3.connect(":memory:")) as wanted:
        wanted.executescript(script)
        return _list_tables(database) == _list_tables(wanted)


def _list_tables(database: sqlite3.Connection) -> set[str]:
    rows = database.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return {
        " ".join(str(sql).split())
        for kind, name, sql in rows
        if (kind, name) not in STATISTICS  # of `ANALYZE`
    }
