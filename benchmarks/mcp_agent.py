"""An agent over three MCP servers: files, the web, SQLite.

    python -m benchmarks.mcp_agent [--tasks 50] [--seed 1] [--install FOLDER] [-m smollm2 demo]
                                  [--real-tasks 5]

The servers are those of `benchmarks.processes.mcp_servers`; with --install, those that people use,
which are installed into FOLDER from PyPI and npm: mcp-server-fetch, mcp-server-sqlite (with version
1 of the package `mcp`), @modelcontextprotocol/server-filesystem. The web site is on this machine.
Each task is a run of a scripted model, with calls drawn at random; calls that only read begin
early. With -m, tasks of real models follow, with the calls that they choose.

Prints the outcomes of the calls; what reached the servers is counted at the site, in the database
and in the folder. Exit code 1 if a call was lost, made twice or has another result than it should
have, or if the record of a run does not replay.
"""

import argparse
import json
import random
import re
import sqlite3
import statistics
import subprocess
import sys
import threading
import time
import venv
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from constrained import McpServers, Model, Run, Sampling, connect_mcp, load
from constrained.engine.scripted import Logits, ScriptedEngine, scripted_logits
from constrained.mcp.server import ServerCommand
from constrained.runs.replay import replay
from constrained.runs.store import RunStore
from constrained.template.chat_template import ChatTemplate
from constrained.vocabulary.vocabulary import byte_vocabulary

ROOT = Path(__file__).parent.parent
TEMPLATE = ROOT / "examples" / "templates" / "hermes.jinja"
OPENER = rb"<\|im_start\|>assistant\n"
LONGEST_TURN = 4000  # bytes, the opener included
GREEDY = Sampling(temperature=0)
FILES = "@modelcontextprotocol/server-filesystem"


class Site:
    """A site of this machine, which counts what is fetched."""

    def __init__(self) -> None:
        self.visits = visits = Counter[str]()

        class Pages(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                visits[self.path] += 1
                body = f"<html><body><p>This is {self.path[1:]}.</p></body></html>".encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *_: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"


@dataclass
class Workplace:
    """What the servers work on, and what is counted of it."""

    folder: Path
    database: Path
    site: Site = field(default_factory=Site)

    def count_rows(self) -> Counter[str]:
        """Returns how often each row was inserted."""
        with sqlite3.connect(self.database) as database:
            return Counter(name for (name,) in database.execute("SELECT name FROM notes"))


@dataclass(frozen=True)
class Asked:
    """A call that a scripted model makes, and a text that its result has to have."""

    name: str
    arguments: dict[str, Any]
    expected: str


def install(folder: Path) -> dict[str, list[str]]:
    """Returns the commands of the servers that people use, installed if they are not there yet."""
    commands: dict[str, list[str]] = {}
    wanted = {"web": ["mcp-server-fetch"], "data": ["mcp<2", "mcp-server-sqlite"]}
    for name, packages in wanted.items():
        home = folder / packages[-1].removeprefix("mcp-server-")
        program = home / "bin" / packages[-1]
        if not program.exists():
            venv.create(home, with_pip=True)
            pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet"]
            subprocess.run([*pip, *packages], check=True)
        commands[name] = [str(program)]
    program = folder / "node" / "node_modules" / ".bin" / "mcp-server-filesystem"
    if not program.exists():
        npm = ["npm", "install", "--silent", "--prefix", str(folder / "node"), FILES]
        subprocess.run(npm, check=True)
    commands["files"] = [str(program)]
    commands["web"] += ["--ignore-robots-txt", "--allow-private-ips"]
    return commands


def find_servers(place: Workplace, folder: Path | None) -> list[ServerCommand]:
    """Returns the servers, over the workplace."""
    ours = [sys.executable, "-m", "benchmarks.processes.mcp_servers"]
    commands = {name: [*ours, name] for name in ("files", "web", "data")}
    if folder is not None:
        commands = install(folder)
    commands["files"].append(str(place.folder))
    commands["data"] += ["--db-path", str(place.database)] if folder else [str(place.database)]
    servers: list[ServerCommand] = []
    for name, (program, *arguments) in commands.items():
        servers.append(ServerCommand(program, tuple(arguments), cwd=str(ROOT), name=name))
    return servers


def draw_task(number: int, place: Workplace, choose: random.Random) -> list[list[Asked]]:
    """Returns the turns of a task, each with its calls."""
    turns: list[list[Asked]] = []
    written: list[str] = []
    for turn in range(choose.randint(2, 4)):
        calls: list[Asked] = []
        for index in range(choose.randint(1, 3)):
            key = f"{number}-{turn}-{index}"
            kinds = ["fetch", "write", "insert"]
            if written:
                kinds += ["read", "select"]
            calls.append(_make_call(choose.choice(kinds), key, place, written))
        written += [f"{number}-{turn}-{i}" for i in range(len(calls))]
        turns.append(calls)
    return turns


def _make_call(kind: str, key: str, place: Workplace, written: Sequence[str]) -> Asked:
    path = str(place.folder / f"note-{key}.txt")
    match kind:
        case "fetch":
            url = f"{place.site.address}/page-{key}"
            return Asked("web__fetch", {"url": url}, f"This is page-{key}.")
        case "write":
            arguments = {"path": path, "content": f"note {key}"}
            return Asked("files__write_file", arguments, "Successfully wrote")
        case "insert":
            query = f"INSERT INTO notes VALUES ('{key}')"
            return Asked("data__write_query", {"query": query}, "")
        case "read":
            path = place.folder / f"read-{key}.txt"
            path.write_text(f"read {key}")
            return Asked("files__read_text_file", {"path": str(path)}, f"read {key}")
        case _:
            query = f"SELECT count(*) AS n, '{key}' AS k FROM notes WHERE name < '{written[-1]}'"
            return Asked("data__read_query", {"query": query}, key)


def make_model(turns: Sequence[Sequence[Asked]]) -> Model:
    """Returns a model that makes these calls, whatever their results are, and answers."""
    vocabulary = byte_vocabulary()
    scripts: list[str] = []
    for calls in turns:
        texts: list[str] = []
        for call in calls:
            body = json.dumps({"name": call.name, "arguments": call.arguments})
            texts.append(f"<tool_call>\n{body}\n</tool_call>")
        scripts.append("\n".join(texts))
    scripts.append("Done.")

    writers: dict[int, Logits] = {}  # of each turn, by the place where it begins

    def logits(sequence: int, tokens: Sequence[int]) -> np.ndarray:
        passed = max(0, len(tokens) - LONGEST_TURN)
        found = list(re.finditer(OPENER, vocabulary.text(tokens[passed:])))
        start = passed + found[-1].end()  # a token is a byte
        if start not in writers:
            writers[start] = scripted_logits(vocabulary, scripts[len(writers)], start)
        return writers[start](sequence, tokens)

    engine = ScriptedEngine(vocabulary, logits, context_length=100_000)
    return Model(engine, ChatTemplate(TEMPLATE.read_text("utf-8")))


def check_task(turns: Sequence[Sequence[Asked]], run: Run, place: Workplace) -> Counter[str]:
    """Returns what became of the calls of a task."""
    found = Counter[str]()
    asked = [call for calls in turns for call in calls]
    found["lost"] += abs(len(asked) - len(run.calls))
    rows = place.count_rows()
    for wanted, made in zip(asked, run.calls, strict=False):
        found["calls"] += 1
        if made.outcome != "done" or wanted.expected not in made.content:
            found["wrong"] += 1
            print(f"wrong: {wanted.name} {wanted.arguments}: {made.content[:200]}")
        seen = 1
        match wanted.name:
            case "web__fetch":
                path = wanted.arguments["url"].removeprefix(place.site.address)
                seen = place.site.visits[path]
            case "data__write_query":
                seen = rows[wanted.arguments["query"].split("'")[1]]
            case "files__write_file":
                seen = int(
                    Path(wanted.arguments["path"]).read_text() == wanted.arguments["content"]
                )
            case _:
                pass
        found["lost"] += seen == 0
        found["doubled"] += seen > 1
    return found


def count_differences(record: Path) -> tuple[int, int]:
    """Returns how many runs a record has, and how many of them do not replay."""
    different = 0
    with RunStore(record) as store:
        runs = [store.read_run(listed) for listed in store.list_runs()]
        for run in runs:
            replayed = replay(run, store.read_events(run.id))
            different += bool(replayed.differences) or replayed.run is None
    return len(runs), different


def run_scripted(servers: McpServers, place: Workplace, options: argparse.Namespace) -> bool:
    """Runs the tasks with the scripted model; returns False if something is wrong."""
    choose, found = random.Random(options.seed), Counter[str]()
    record = place.database.with_name("runs.db")
    seconds: list[float] = []
    for number in range(options.tasks):
        turns = draw_task(number, place, choose)
        with make_model(turns) as model:
            begun = time.perf_counter()
            run = model.run(
                "Go.",
                servers.tools,
                record=record,
                max_steps=len(turns) + 1,
                max_tokens=4000,
                sampling=GREEDY,
            )
            seconds.append((time.perf_counter() - begun) / len(run.calls))
        found += check_task(turns, run, place)
    runs, different = count_differences(record)
    print(
        f"scripted: {options.tasks} tasks, {found['calls']} calls: {found['lost']} lost, "
        f"{found['doubled']} doubled, {found['wrong']} wrong; {runs - different} of {runs} records "
        f"replay; {statistics.median(seconds) * 1000:.0f} ms a call, its tokens included"
    )
    return not (found["lost"] or found["doubled"] or found["wrong"] or different)


def list_questions(place: Workplace, count: int) -> list[str]:
    """Returns what a real model is asked: pages, files and rows in turn, each with a word of its
    own."""
    words = ("news", "prices", "weather", "sport", "music", "books", "trains", "recipes", "jobs")
    questions = list[str]()
    for number in range(count):
        word = words[number // 5 % len(words)]
        kinds = (
            f"Fetch the page {place.site.address}/{word} and tell me what it says.",
            f"Read the file {place.folder}/always.txt and look for {word}.",
            f"List the tables of the database, I look for {word}.",
            f"Write '{word}' into the file {place.folder}/{word}.txt.",
            f"Count the rows of the table notes that have the name {word} with a SELECT query.",
        )
        questions.append(kinds[number % 5])
    return questions


def run_real(servers: McpServers, place: Workplace, name: str, tasks: int) -> bool:
    """Tasks of a real model, which may call what it likes; False if something is wrong."""
    record = place.database.with_name(f"{Path(name).name}.db")
    asked = list_questions(place, tasks)
    outcomes, called, visits = Counter[str](), 0, 0
    before = sum(place.site.visits.values())
    with load(name) as model:
        for question in asked:
            run = model.run(
                question,
                servers.tools,
                tool_choice="required",
                max_steps=2,
                max_tokens=200,
                record=record,
                sampling=GREEDY,
            )
            outcomes += Counter(made.outcome.value for made in run.calls)
            called += bool(run.calls)
            for made in run.calls:
                is_ours = str(made.call.arguments.get("url", "")).startswith(place.site.address)
                visits += made.call.name == "web__fetch" and made.outcome == "done" and is_ours
    seen = sum(place.site.visits.values()) - before
    runs, different = count_differences(record)
    counted = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    print(
        f"{name}: {len(asked)} tasks, {called} with a call ({counted}); {visits} fetched, "
        f"{seen} seen by the site; {runs - different} of {runs} records replay"
    )
    return seen == visits and not different


@contextmanager
def prepare() -> Iterator[Workplace]:
    """A workplace, for a while."""
    with TemporaryDirectory() as name:
        folder = Path(name) / "files"
        folder.mkdir()
        (folder / "always.txt").write_text("always there")
        database = Path(name) / "data.db"
        with sqlite3.connect(database) as opened:
            opened.execute("CREATE TABLE notes (name TEXT)")
        yield Workplace(folder, database)


def main() -> int:
    """Runs the tasks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--install", type=Path, metavar="FOLDER")
    parser.add_argument("-m", "--model", nargs="+", default=[])
    parser.add_argument("--real-tasks", type=int, default=5, help="of each model")
    options = parser.parse_args()
    with prepare() as place, connect_mcp(*find_servers(place, options.install)) as servers:
        print(f"{len(servers.tools())} tools of {', '.join(servers.names)}")
        is_right = run_scripted(servers, place, options)
        for name in options.model:
            is_right &= run_real(servers, place, name, options.real_tasks)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
