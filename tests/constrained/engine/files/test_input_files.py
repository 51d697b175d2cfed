"""Reading ends, whatever a path leads to."""

import io
import os
import subprocess
import tracemalloc
from pathlib import Path

import pytest

from constrained.engine.files import input_files
from constrained.engine.files.input_files import open_input, read_input, read_stream_lines
from constrained.engine.host import check_gguf
from constrained.errors import ModelError
from tests.command_line import Run

COMMANDS = {
    "check": ["check"],
    "schema": ["schema"],
    "formats": ["formats", "detect"],
    "doctor": ["doctor"],
    "runs": ["runs", "list"],
    "--tools": ["grammar", "--format", "hermes", "--tools"],
    "--json-schema": ["call", "hi", "--json-schema"],
    "--chat-template-file": ["call", "hi", "--chat-template-file"],
    "--mcp-config": ["call", "hi", "--mcp-config"],
    "--config": ["models", "--config"],
}


@pytest.fixture
def pipe(tmp_path: Path) -> str:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return str(path)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("device", [False, True])
def test_commands_do_not_wait_for_a_pipe_and_do_not_read_a_device_to_its_end(
    run: Run, pipe: str, monkeypatch: pytest.MonkeyPatch, *, command: str, device: bool
) -> None:
    monkeypatch.setattr(input_files, "MAX_BYTES", 1_000_000)
    code, out, err = run(*COMMANDS[command], "/dev/zero" if device else pipe)
    assert (code, out) == (2, "")
    assert err.startswith("constrained: error: ")


def test_a_model_is_a_regular_file(pipe: str) -> None:
    for path in (pipe, "/dev/zero"):
        with pytest.raises(ModelError, match="not a regular file"):
            check_gguf(Path(path))


def test_a_pipe_that_the_process_was_given_is_read() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"text")
    os.close(writing)
    assert read_input(f"/dev/fd/{reading}") == b"text"
    os.close(reading)


def test_a_pipe_whose_writer_is_late_is_waited_for() -> None:
    with subprocess.Popen(["sh", "-c", "sleep 0.05; echo late"], stdout=subprocess.PIPE) as late:
        assert late.stdout is not None
        with open_input(f"/dev/fd/{late.stdout.fileno()}") as file:
            assert list(read_stream_lines(file)) == [b"late\n"]


@pytest.mark.parametrize("folder", ["/dev/shm", "/proc/self/cwd"])
def test_a_named_pipe_is_not_given_wherever_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if not os.path.isdir(folder):
        pytest.skip(f"there is no {folder}")
    path = os.path.join(folder, f"constrained-test-{os.getpid()}")
    os.mkfifo(path)
    try:
        with pytest.raises(OSError, match="not a regular file"):
            read_input(path)
    finally:
        os.unlink(path)


def test_a_small_file_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "small"
    path.write_bytes(b"text")
    tracemalloc.start()
    try:
        assert read_input(path) == b"text"
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 4 * input_files.MIB


def test_a_line_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_files, "MAX_BYTES", 3 * input_files.MIB)
    lines = read_stream_lines(io.BytesIO(b"a\n" + b"a" * 4_000_000))
    assert next(lines) == b"a\n"
    with pytest.raises(OSError, match="line 2 has more than 3 MiB"):
        next(lines)
