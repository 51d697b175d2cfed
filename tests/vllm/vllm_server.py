"""A real vLLM as a process of its own, on the CPU, in an environment of its own."""

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

VLLM = Path(os.environ.get("TEST_VLLM", ".venv-vllm/bin/vllm"))
CONTEXT = 2048
PATIENCE = 300  # seconds until it has loaded PyTorch, and the model
SEQUENCES = 4
OPTIONS = (
    "--dtype=float32",
    "--enforce-eager",
    f"--max-model-len={CONTEXT}",
    f"--max-num-seqs={SEQUENCES}",
    "--structured-outputs-config.backend=guidance",
    "--enable-prompt-tokens-details",
    "--block-size=32",  # the cache holds whole blocks; prompts of tests are short
)
QUIET = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
}


@contextmanager
def run_vllm(folder: Path, *options: str) -> Iterator[str]:
    """Serves a model, a folder in the form of Hugging Face; gives host and port.

    Raises:
        RuntimeError: it ended, or did not answer; with the last lines that it wrote.
    """
    port = _find_free_port()
    command = [str(VLLM.absolute()), "serve", str(folder), *OPTIONS, *options]
    command += ["--host=127.0.0.1", f"--port={port}"]
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **QUIET}
        )
        try:
            if not _is_ready(process, f"http://127.0.0.1:{port}/health"):
                log.seek(0)
                raise RuntimeError(f"vLLM does not answer: {log.read()[-4000:]}")
            yield f"127.0.0.1:{port}"
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _is_ready(process: subprocess.Popen[bytes], url: str) -> bool:
    began = time.monotonic()
    while time.monotonic() - began < PATIENCE and process.poll() is None:
        try:
            if httpx.get(url, trust_env=False).status_code == 200:
                return True
        except httpx.TransportError:
            pass
        time.sleep(0.5)
    return False


def _find_free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]
