"""Reading ends, whatever a path leads to."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from constrained.input_files import begins_with, open_input, read_input, read_stream_lines
from constrained.terminal.exit_codes import ExitCode
from tests.command_line import run

MODEL = {"call": ["call", "hi", "-m"]}
OPTIONS = {
    "rows": ["check"],
    "schemas": ["schema"],
    "template": ["formats", "detect"],
    "doctor": ["doctor"],
    "traces": ["trace"],
    "batch": ["batch", "-o", "none.jsonl"],
    "tools": ["grammar", "--format", "hermes", "--tools"],
    "servers": ["call", "hi", "--mcp-config"],
    "configuration": ["models", "--config"],
}


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path
