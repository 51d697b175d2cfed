"""Steps: work that a client can make large is counted, and ends when it has taken too much.

A step is about a microsecond: a subschema that is read, a state that is found, a few dozen
characters that are written. Steps and not seconds, so that a refusal does not depend on the speed
of the machine. The algorithms count steps in their loops (`spend`). The caller sets the limit
(`limit_steps`), and may have the work stopped from outside (`stop_when`).
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

from grammars.errors import Error

WRITTEN = 32  # characters that are written, or compared, in a step
_OFTEN = 1_000  # steps between two checks whether the work is still needed


class StepsError(Error):
    """The work takes more steps than it may."""


class Account:
    """The steps that are `left` to some work (None: any number), and to the work around it."""

    def __init__(
        self, max_steps: int | None, check: Callable[[], None] | None, outer: "Account | None"
    ):
        self.left = max_steps
        self._max_steps = max_steps
        self._check = check
        self._unchecked = 0
        self.outer = outer

    def spend(self, count: int) -> None:
        if self.left is not None:
            self.left -= count
            if self.left < 0:
                raise StepsError(f"it takes more than {self._max_steps:,} steps")
        if self._check is not None:
            self._unchecked += count
            if self._unchecked >= _OFTEN:
                self._unchecked = 0
                self._check()
        if self.outer is not None:
            self.outer.spend(count)

    def check(self) -> None:
        if self._check is not None:
            self._check()
        if self.outer is not None:
            self.outer.check()


_account: ContextVar[Account | None] = ContextVar("steps", default=None)


def spend(count: int = 1) -> None:
    """Counts steps of the current work; does nothing if there is no limit.

    Raises:
        StepsError: there are more than the work may take.
        Exception: whatever `stop_when` was given raises.
    """
    account = _account.get()
    if account is not None:
        account.spend(count)


def has_steps(count: int) -> bool:
    """Returns whether the current work may take as many steps."""
    account = _account.get()
    while account is not None:
        if account.left is not None and account.left < count:
            return False
        account = account.outer
    return True


def check_wanted() -> None:
    """Checks whether the current work is still needed; for code that waits and spends nothing."""
    account = _account.get()
    if account is not None:
        account.check()


@contextmanager
def limit_steps(max_steps: int) -> Generator[Account]:
    """Limits the steps inside the `with` block; they also count for the enclosing work."""
    account = Account(max_steps, None, _account.get())
    with _open(account):
        yield account


@contextmanager
def stop_when(check: Callable[[], None]) -> Generator[None]:
    """Work that is stopped from outside: its thread calls `check` regularly, and an error that this
    raises ends the work."""
    with _open(Account(None, check, _account.get())):
        yield


@contextmanager
def _open(account: Account) -> Generator[None]:
    token = _account.set(account)
    try:
        yield
    finally:
        _account.reset(token)
