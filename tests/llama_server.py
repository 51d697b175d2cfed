"""A real llama-server (extra `remote`) as a process of its own."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CONTEXT = 4096


@contextmanager
def run_llama_server(model: Path, *, context: int = CONTEXT) -> Iterator[str]:
    """Serves a model; gives host and port."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.peer_processes.llama_server_peer",
        str(model),
        "1",
        str(context),
    ]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, **pipes) as process:  # type: ignore[call-overload]
        yield json.loads(process.stdout.readline())["url"].removeprefix("http://")
        process.stdin.close()
        process.wait(30)
