"""An agent as a program: run in a home and a folder of its own, without a network. Runs with the
standard library alone."""

import os
import re
import subprocess
import tempfile
from collections import Counter
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
ANSWERED = re.compile(
    r'^constrained_requests_total\{path="([^"]*)",status="(\d+)"\} (\d+)', re.MULTILINE
)


@dataclass(frozen=True)
class CodingAgent:
    """An agent.

    Args:
        program: its name among the programs of its packages.
        arguments: of the program, in front of what it is asked.
        read: finds the answer in what it prints.
        files: what its home has, by path.
        environment: in addition to a bare one.
    """

    program: str
    arguments: tuple[str, ...]
    read: Callable[[str], str]
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    environment: Mapping[str, str] = field(default_factory=dict[str, str])

    def ask(self, text: str, packages: Path) -> str:
        """The answer of the agent; none of its requests is refused.

        Args:
            packages: the folder that npm or pip has installed it in.
        """
        before = count_statuses()
        programs = packages / "node_modules" / ".bin"
        if not programs.exists():  # a virtual environment
            programs = packages / "bin"
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
                [str(programs / self.program), *self.arguments, text],
                cwd=work,
                env=given,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=LIMIT,
                check=False,
            )
        assert done.returncode == 0, f"exit code {done.returncode}: {done.stdout}{done.stderr}"
        answers = count_statuses() - before
        assert set(answers) == {"200"}, f"statuses of its requests: {answers}"
        return self.read(done.stdout)


def count_statuses() -> Counter[str]:
    """How often the server has answered with each status, this question apart."""
    with urlopen(f"{report.URL}/metrics", timeout=report.PATIENCE) as response:
        text = response.read().decode()
    counts = Counter[str]()
    for path, status, count in ANSWERED.findall(text):
        if path != "/metrics":
            counts[status] += int(count)
    return counts
