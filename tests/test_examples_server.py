"""The programs that ask a server run against one that has the model of the package."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from constrained import load
from tests.server.running_server import running

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running(load(threads=1, sequences=2)) as client:
        yield str(client.base_url).rstrip("/")


def run(url: str, *command: str) -> str:
    environment = os.environ | {"CONSTRAINED_URL": url}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_curl(url: str) -> None:
    printed = run(url, "bash", "examples/server/chat.sh")
    assert '"name":"get_weather"' in printed
    assert printed.rstrip().endswith("data: [DONE]")


def test_openai(url: str) -> None:
    printed = run(url, sys.executable, "-m", "examples.server.openai_client")
    assert "call   GetWeather(city='Oslo', celsius=" in printed
    cached, count = map(int, re.findall(r"cached (\d+) of (\d+)", printed)[0])
    assert 0 < cached < count


def test_anthropic(url: str) -> None:
    printed = run(url, sys.executable, "-m", "examples.server.anthropic_client")
    call = {"city": "Paris", "day": "tomorrow", "unit": "celsius"}
    assert f"call   get_weather {call}" in printed
    assert "14" in printed.split("answer", 1)[1]
    assert int(re.findall(r"cached (\d+)", printed)[0]) > 50


def test_the_agent(url: str) -> None:
    printed = run(url, sys.executable, "-m", "examples.server.agent")
    assert re.search(r"^calculate\(\{.*\}\) -> ", printed, re.MULTILINE), printed
