"""A shared store in Redis, for processes on several machines."""
# pyright: reportMissingImports=false

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from constrained.errors import RequestError
from constrained.errors.own_packages import install_command
from server.models.shared_store import StoreEntry, explain_failure

PREFIX = "constrained"
KEPT_SECONDS = 7 * 24 * 3600
"""How long values are kept after the last write. Redis itself limits the memory (`maxmemory`)."""
PATIENCE_SECONDS = 2.0
STAMP_BYTES = 8


class RedisStore:
    """A `SharedStore` in Redis, at `redis://` or, with TLS, `rediss://`: a hash for each key."""

    def __init__(self, address: str):
        try:
            import redis
        except ModuleNotFoundError as error:
            hint = f"Run: {install_command('redis')}"
            raise RequestError("a store in Redis needs redis", hint=hint) from error
        self._error = redis.RedisError
        try:
            self._redis: Any = redis.Redis.from_url(
                address,
                socket_timeout=PATIENCE_SECONDS,
                socket_connect_timeout=PATIENCE_SECONDS,
            )
        except ValueError as error:
            raise RequestError(f"--store: {error}", where="/store") from error
        with self._failures(is_opening=True):
            self._redis.ping()

    def read(self, space: str, key: str) -> dict[str, bytes]:
        with self._failures():
            found: dict[bytes, bytes] = self._redis.hgetall(_name(space, key))
        stamped = sorted(found.items(), key=lambda item: item[1][:STAMP_BYTES])
        return {field.decode(): value[STAMP_BYTES:] for field, value in stamped}

    def exists(self, space: str, key: str) -> bool:
        with self._failures():
            return bool(self._redis.exists(_name(space, key)))

    def write(self, *entries: StoreEntry) -> None:
        with self._failures(), self._redis.pipeline() as pipeline:
            for entry in entries:
                name = _name(entry.space, entry.key)
                pipeline.hset(name, entry.field, _stamp(entry.value))
                pipeline.expire(name, KEPT_SECONDS)
            pipeline.execute()

    def delete(self, space: str, key: str) -> bool:
        with self._failures():
            return bool(self._redis.delete(_name(space, key)))

    def close(self) -> None:
        self._redis.close()

    @contextmanager
    def _failures(self, *, is_opening: bool = False) -> Iterator[None]:
        try:
            yield
        except (self._error, OSError) as error:
            raise explain_failure("in Redis", error, is_opening=is_opening) from error


def _stamp(value: bytes) -> bytes:
    """Returns the value with a time stamp before it. Redis does not keep the order of fields, so
    the time stamp shows which is the latest."""
    return time.time_ns().to_bytes(STAMP_BYTES) + value


def _name(space: str, key: str) -> str:
    return f"{PREFIX}:{space}:{key}"
