"""A real llama-server (extra `remote`) as a process of its own."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.processes.llama_server import start_llama_server

CONTEXT = 4096


@contextmanager
def run_llama_server(model: Path, *, context: int = CONTEXT) -> Iterator[str]:
    """Serves a model; gives host and port."""
    with start_llama_server(sys.executable, str(model), "1", str(context)) as url:
        yield url.removeprefix("http://")
