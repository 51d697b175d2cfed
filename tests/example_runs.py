"""The examples that run as programs, and what they print."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def run(*arguments: str) -> str:
    # One thread: several that wait for each other on a busy machine are many times slower.
    environment = {**os.environ, "OMP_THREAD_LIMIT": "1"}
    command = [sys.executable, "-m", *arguments]
    result = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


RUNS = {
    "functions": r"^(get_weather|add)\(\{.*\}\) -> (done|failed|repeated|cut): ",
    "streaming": r"^so far     \{'\w+': ",
    "structured": r"^Invoice \{'number': '[A-Z]{2}-\d{4}', 'total': .*\}\nregex  \d{4}-\d\d-\d\d\n",
    "mcp_tools": r"^get_weather: only reads\nset_light: may .*\n(\w+\(\{.*\}\) -> .*\n)+ended: ",
    "concurrent": r"^Tokyo\? \[('(Paris|Rome|Tokyo): 09:30'|'.*ran out.*')?\] \(\w+\)$",
    "own_llama": r"^text .*\n(set_light \{'(room|on)': .*, '(room|on)': .*\}\n)?text ",
}
