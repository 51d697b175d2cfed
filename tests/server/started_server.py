"""A server as a process of its own."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[2]
PATIENCE = 60  # seconds


def begin(*arguments: str) -> "tuple[subprocess.Popen[str], int]":
    """A server that starts, and its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("LLAMA_")}
    environment |= {"OMP_THREAD_LIMIT": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "server", "--port", str(port), *arguments]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True), port


def start(*arguments: str) -> "tuple[subprocess.Popen[str], int]":
    """A server that answers, and its port."""
    process, port = begin(*arguments)
    for _ in range(PATIENCE * 10):
        try:
            if httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200:
                break
        except httpx.TransportError:
            assert process.poll() is None
        time.sleep(0.1)
    return process, port
