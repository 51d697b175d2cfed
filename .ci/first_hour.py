"""A stranger's first hour: what the documents tell to run is run, outside of the checkout.

    python .ci/first_hour.py FOLDER_WITH_WHEEL

First `make demo` in a fresh clone. Then the wheel goes into an empty environment, and in an empty
folder, with an empty home, each `constrained` command and each Python block of README and docs
runs on the demo model; commands that name a model of the Hub ask one on the loopback, which has the
demo model by that name. Each has to end with exit code 0 and print something. At last mypy and
pyright, both strict, check a program against the installed wheel.

Prints a table: seconds, exit code, command; and the time to the first answer. pip takes the wheel
of llama-cpp-python from its cache where it has one, else it compiles, which shows in the times. The
tests (`make test`) are not run again: `.ci/run` does that.

To keep this short, the Python blocks share a process, each with its own names, and servers of
commands are asked without a client: blocks ask one with the clients that the documents name.
"""

import json
import os
import re
import resource
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.hub_server import Hub, serve  # noqa: E402  of the checkout
from tests.snippets import RUN_EACH, Snippet, read_commands, read_pages, read_snippets  # noqa: E402

SERVER = "http://127.0.0.1:8080"
PATIENCE = 300  # seconds for one command; far more than any of them takes
INTERRUPTED = -signal.SIGINT  # ended by Ctrl-C; a shell says 130
NOT_HANDED_ON = re.compile(r"PYTHON|VIRTUAL_ENV|LLAMA_|CONSTRAINED_|HF_|XDG_|MAKE|MFLAGS|OPENAI_")
OF_THE_HUB = re.compile(r"([\w.-]+/[\w.-]+):(Q\w+)")
TYPED = "typed_program.py"
PIPED_PARSER = "tests/constrained/inspect/conformance/piped_parser.py"
OWN_PARSERS = "tests/grammars/suite/own_parsers.py"
ELSEWHERE = re.compile("(llama-server|vllm|sglang)://|constrained cluster|--mcp|--peer|vllm==")
"""What needs an engine or its package, Ray and several machines, or MCP servers."""
FURTHER = ("constrained --help", "python -m constrained --version", "python -m server --help")
"""Commands that no page tells to run."""


FUNCTIONS = '''
def send_mail(to: str, text: str) -> str:
    """Sends a mail."""
    return "sent"
'''


@dataclass(frozen=True)
class Ran:
    """A command that was run; where it is killed, the code is negative."""

    command: str
    seconds: float
    code: int
    output: str
    expected: int = 0

    @property
    def is_good(self) -> bool:
        """Did it do what the documents promise?"""
        return self.code == self.expected and self.output.strip() != ""


class Stranger:
    """Somebody with an empty home, an environment of their own and an empty folder to work in.

    Args:
        folder: where all of that is made.
        cache: pip's cache, the one thing of this machine that they have.
    """

    def __init__(self, folder: Path, cache: str):
        self.home = folder / "home"
        self.work = folder / "work"
        self.venv = folder / "venv"
        for made in (self.home, self.work):
            made.mkdir()
        kept = {name: value for name, value in os.environ.items() if not NOT_HANDED_ON.match(name)}
        path = f"{self.venv / 'bin'}:{os.environ['PATH']}"
        own = {"HOME": str(self.home), "PIP_CACHE_DIR": cache, "PATH": path}
        # One thread: several that wait for each other on a busy machine are many times slower.
        self.environment = {**kept, **own, "OMP_THREAD_LIMIT": "1"}
        self.ran: list[Ran] = []

    def run(self, command: str, *, folder: Path | None = None, patience: int = PATIENCE) -> Ran:
        """Runs a command line in their folder, and prints what became of it."""
        begun = time.monotonic()
        try:
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=folder or self.work,
                env=self.environment,
                input="Hello!\n",
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=patience,
                check=False,
            )
            code, output = done.returncode, done.stdout
        except subprocess.TimeoutExpired:
            code, output = -signal.SIGKILL, f"not done after {patience} seconds"
        return self.note(Ran(command, time.monotonic() - begun, code, output))

    def note(self, ran: Ran) -> Ran:
        """Keeps and prints a line of the table."""
        self.ran.append(ran)
        shown = " ".join(ran.command.split())
        print(f"{ran.seconds:8.1f}  {ran.code:4d}  {shown[:110]}", flush=True)
        if not ran.is_good:
            print(ran.output or "(no output)", flush=True)
        return ran

    @contextmanager
    def serving(self, command: str) -> Iterator[str]:
        """Starts a server, and interrupts it in the end; gives its address."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        begun = time.monotonic()
        log = self.work / "serve.log"
        with log.open("w") as written:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=self.work,
                env={**self.environment, "LLAMA_ARG_PORT": str(port)},
                stdout=written,
                stderr=subprocess.STDOUT,
            )
        try:
            while process.poll() is None and not is_ready(url):
                if time.monotonic() - begun > PATIENCE:
                    break
                time.sleep(0.1)
            seconds = time.monotonic() - begun
            yield url
        finally:
            process.send_signal(signal.SIGINT)
            try:
                code = process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                code = process.wait()
        self.note(Ran(command, seconds, code, log.read_text(), expected=INTERRUPTED))


def is_ready(url: str) -> bool:
    """Does a server there say that its model is ready?"""
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def fetch(url: str, body: object = None) -> Any:
    """Sends a request with the key of the documents, and reads the JSON of the response."""
    headers = {"Authorization": "Bearer secret", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers)
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return json.load(answer)


def ask(url: str) -> Ran:
    """Asks the first model of a server."""
    begun = time.monotonic()
    try:
        name = fetch(f"{url}/v1/models")["data"][0]["id"]
        body = {"model": name, "messages": [{"role": "user", "content": "Hello!"}]}
        reply = fetch(f"{url}/v1/chat/completions", {**body, "temperature": 0, "max_tokens": 40})
        code, output = 0, reply["choices"][0]["message"]["content"]
    except OSError as e:
        code, output = 1, str(e)
    return Ran(f"a question to {url}", time.monotonic() - begun, code, output)


def read_documents() -> tuple[list[str], list[tuple[str, Snippet]]]:
    """The `constrained` commands of all pages, each once, and all blocks with the names of their
    pages."""
    commands: dict[str, str] = {}
    blocks: list[tuple[str, Snippet]] = []
    for page in read_pages():
        snippets = read_snippets(page.read_text("utf-8"))
        blocks += [(page.stem, snippet) for snippet in snippets]
        for line in read_commands(snippets):
            commands.setdefault(shlex.join(shlex.split(line, comments=True)), line)
    return list(commands.values()), blocks


def demonstrate(stranger: Stranger, folder: Path) -> float:
    """Clones and runs `make demo`; returns the seconds until the answer."""
    clone = folder / "clone"
    cloned = stranger.run(f"git clone {shlex.quote(str(ROOT))} {clone} 2>&1")
    return cloned.seconds + stranger.run("make demo", folder=clone, patience=1800).seconds


def install(stranger: Stranger, wheel: Path) -> float:
    """Installs the wheel, and what the documents use with it: clients, pytest.

    Returns:
        The seconds until an answer.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    clients = [
        requirement
        for requirement in project["optional-dependencies"]["dev"]
        if requirement.startswith(("openai", "anthropic", "pytest>"))
    ]
    steps = [
        f"{sys.executable} -m venv {stranger.venv} && echo made",
        f"{ROOT}/.ci/install_engine {stranger.venv}/bin/python && echo installed",
        f"pip install --progress-bar off '{wheel}[mcp,otel,server,suite]'",
        'constrained call "Hello!"',
    ]
    seconds = sum(stranger.run(step, patience=1800).seconds for step in steps)
    stranger.run(f"pip install --progress-bar off {shlex.join(clients)}")
    return seconds


def write_files(stranger: Stranger, blocks: Sequence[tuple[str, Snippet]]) -> None:
    """The files that the commands name: those that a page shows, and some like those of users."""
    place = "import constrained.model_files.embedded as it; print(it.PATH)"
    demo = subprocess.check_output([stranger.venv / "bin/python", "-c", place], text=True).strip()
    models = stranger.home / "models"
    models.mkdir()
    for name in (
        stranger.work / "model.gguf",
        stranger.work / "small.gguf",
        models / "qwen3-0.6b-q8_0.gguf",
    ):
        name.symlink_to(demo)
    tools, row = [one.code for page, one in blocks if (page, one.language) == ("cli", "json")]
    [rows] = [one.code for page, one in blocks if (page, one.language) == ("eval", "json")]
    [models_ini] = [one.code for page, one in blocks if (page, one.language) == ("server", "ini")]
    template = (ROOT / "examples/templates/hermes.jinja").read_text("utf-8")
    files = {
        "tools.json": tools,
        "turns.jsonl": row,
        "rows.jsonl": rows,
        "my_parser.py": (ROOT / PIPED_PARSER).read_text("utf-8"),
        "my_parsers.py": (ROOT / OWN_PARSERS).read_text("utf-8"),
        "known.txt": "",  # findings that are accepted: none
        "models.ini": models_ini.replace("/models/", f"{models}/"),
        "chat_template.jinja": template,
        "schemas.jsonl": read_head(ROOT / "tests/data/schemas.jsonl"),
        "tools.py": FUNCTIONS,
        "tokenizer_config.json": json.dumps({"chat_template": template, "eos_token": "<|im_end|>"}),
    }
    for name, text in files.items():
        (stranger.work / name).write_text(text, encoding="utf-8")


def read_head(path: Path) -> str:
    """The first lines of a file."""
    return "\n".join(path.read_text("utf-8").splitlines()[:5])


def fill_hub(commands: Sequence[str], model: bytes) -> Hub:
    """A Hub whose repositories are those that the documents name."""
    repos: dict[str, dict[str, bytes]] = {}
    for command in (*commands, (ROOT / "docs/server.md").read_text("utf-8")):
        for repo, quantisation in OF_THE_HUB.findall(command):
            repos.setdefault(repo, {})[f"model-{quantisation}.gguf"] = model
    return Hub(repos)


def make_runnable(line: str) -> str:
    """A documented command as it is run here, without its comment."""
    command = re.sub(r" +# .*", "", line).replace('"..."', '"Hello!"')
    if command.startswith("constrained call "):
        # By another name, the demo model draws at random: it may not end before the tokens do.
        command += " --temp 0"
    if command.startswith("constrained eval "):
        command += " --count 1"
    if written := re.search(r" -o (\S+)", command):
        command += f" && cat {written[1]}"
    return command.replace("0.0.0.0", "127.0.0.1")  # nothing listens to the outside


def run_commands(stranger: Stranger, commands: Sequence[str]) -> None:
    """Runs what ends by itself; of servers, asks each one by the package `openai`."""
    for command in (*map(make_runnable, commands), *FURTHER):
        if ELSEWHERE.search(command):
            continue
        if command.startswith("constrained serve"):
            with stranger.serving(command) as url:
                stranger.note(ask(url))
        elif SERVER in command:
            with stranger.serving("constrained serve") as url:
                stranger.run(command.replace(SERVER, url))
        else:
            stranger.run(command)


def run_blocks(stranger: Stranger, blocks: Sequence[tuple[str, Snippet]]) -> None:
    """Runs each Python block, and those that call curl, as they are pasted."""
    (stranger.work / "run_each.py").write_text(RUN_EACH)
    programs: list[str] = []
    with stranger.serving("python -m server") as url:
        for page, block in blocks:
            code = block.code.replace(SERVER, url)
            if block.language == "python":
                program = stranger.work / f"{page}_line_{block.line}.py"
                program.write_text(code, encoding="utf-8")
                programs.append(program.name)
            elif block.language == "sh" and code.startswith("curl "):
                stranger.run(code.replace("curl ", "curl -sSf ", 1))
        each = shlex.join(["python", "run_each.py", *programs])
        stranger.run(each, patience=PATIENCE * len(programs))


def check_types(stranger: Stranger) -> None:
    """Checks a program of a user, and runs it."""
    shutil.copy(ROOT / "tests" / TYPED, stranger.work)
    python = stranger.venv / "bin" / "python"
    tools = f"{sys.executable} -m"
    stranger.run(f"{tools} mypy --strict --python-executable {python} {TYPED}")
    stranger.run(f"{tools} pyright --pythonpath {python} {TYPED}")  # the program asks for strict
    stranger.run(f"python {TYPED}")


def report(stranger: Stranger, answers: Mapping[str, float], *, seconds: float) -> None:
    """Prints what it came to; ends the program where something failed."""
    for way, until_answer in answers.items():
        print(f"The first answer, {way}: {until_answer:.0f} seconds")
    failed = [ran for ran in stranger.ran if not ran.is_good]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime
    counts = f"{len(stranger.ran)} commands, {len(failed)} failed"
    print(f"{counts}; {seconds:.0f} seconds, {cpu:.0f} of the CPU")
    if failed:
        raise SystemExit("\n".join(ran.command for ran in failed))


def main() -> None:
    """Spends the hour."""
    begun = time.monotonic()
    # Where this runs in the background, interrupts may be ignored; programs would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    (wheel,) = Path(sys.argv[1]).resolve().glob("*.whl")
    find_cache = [sys.executable, "-m", "pip", "cache", "dir"]
    cache = subprocess.check_output(find_cache, text=True).strip()
    commands, blocks = read_documents()
    print(" seconds  code  command")
    with tempfile.TemporaryDirectory(prefix="first-hour-") as name:
        folder = Path(name)
        stranger = Stranger(folder, cache)
        answers = {
            "from a clone by `make demo`": demonstrate(stranger, folder),
            "from the wheel in an empty environment": install(stranger, wheel),
        }
        write_files(stranger, blocks)
        hub = fill_hub(commands, (stranger.work / "model.gguf").read_bytes())
        with serve(hub):
            stranger.environment["HF_ENDPOINT"] = hub.url
            run_commands(stranger, commands)
        run_blocks(stranger, blocks)
        check_types(stranger)
        report(stranger, answers, seconds=time.monotonic() - begun)


if __name__ == "__main__":
    main()
