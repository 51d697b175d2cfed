"""What requests hold."""

import asyncio
from typing import Any

import pytest

from server.http.leases import Leases, hold

SCOPE: Any = {"type": "http"}
NOBODY: Any = None


def test_all_of_it_is_let_go() -> None:
    released: list[str] = []

    def fail() -> None:
        raise KeyError("gone")

    async def app(scope: Any, receive: Any, send: Any) -> None:
        hold(scope, lambda: released.append("first"))
        hold(scope, fail)
        hold(scope, lambda: released.append("last"))
        assert released == []

    with pytest.raises(KeyError):
        asyncio.run(Leases(app)(dict(SCOPE), NOBODY, NOBODY))
    assert sorted(released) == ["first", "last"]
