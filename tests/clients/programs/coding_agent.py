"""An agent as a program: run in a home and a folder of its own, without a network.

Runs with the standard library alone. The folder of the agent's packages is in CLIENT_HOME.
"""

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import urlopen

import agent_tasks
import report

LIMIT = 180  # seconds
NOWHERE = "http://127.0.0.1:9"
OFFLINE = {
    "HTTP_PROXY": NOWHERE,
    "HTTPS_PROXY": NOWHERE,
    "http_proxy": NOWHERE,
    "https_proxy": NOWHERE,
    "NO_PROXY": "127.0.0.1,localhost",
    "no_proxy": "127.0.0.1,localhost",
    "LANG": "C.UTF-8",
}
REFUSED = re.compile(r'^constrained_requests_total\{.*status="([45]\d\d)".*\} (\d+)', re.MULTILINE)


@dataclass(frozen=True)
class CodingAgent:
    """An agent.

    Args:
        program: its name among the programs of its packages.
        arguments: of the program, in front of what it is asked.
        files: what its home has, by path.
        environment: in addition to a bare one.
    """

    program: str
    arguments: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    environment: Mapping[str, str] = field(default_factory=dict[str, str])

    def ask(self, text: str) -> str:
        """What the agent prints when it is asked something; none of its requests is refused."""
        before = count_refused()
        program = Path(os.environ["CLIENT_HOME"], "node_modules", ".bin", self.program)
        with tempfile.TemporaryDirectory(prefix="agent-", ignore_cleanup_errors=True) as folder:
            home = Path(folder)
            work = home / "work"
            work.mkdir()
            (work / agent_tasks.FILE).write_text(f"{agent_tasks.CODE}\n")
            for path, content in self.files.items():
                (home / path).parent.mkdir(parents=True, exist_ok=True)
                (home / path).write_text(content)
            given = {"PATH": os.environ["PATH"], "HOME": folder, **OFFLINE, **self.environment}
            done = subprocess.run(
                [str(program), *self.arguments, text],
                cwd=work,
                env=given,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=LIMIT,
                check=False,
            )
        assert done.returncode == 0, f"exit code {done.returncode}: {done.stdout}{done.stderr}"
        assert count_refused() == before, "a request was refused"
        return done.stdout


def count_refused() -> int:
    """The requests that the server has refused."""
    with urlopen(f"{report.URL}/metrics", timeout=report.PATIENCE) as response:
        text = response.read().decode()
    return sum(int(count) for _, count in REFUSED.findall(text))


def greet(agent: CodingAgent, read: Callable[[str], str]) -> str:
    """A question that needs no tool.

    Args:
        read: finds the answer in what the agent prints.
    """
    said = read(agent.ask(agent_tasks.GREETING))
    assert said == agent_tasks.GREETED, said
    return said


def read_notes(agent: CodingAgent, read: Callable[[str], str]) -> str:
    """A question that needs a call: the model tells the code only where it has seen it."""
    said = read(agent.ask(agent_tasks.QUESTION))
    assert said == agent_tasks.CODE, said
    return said
