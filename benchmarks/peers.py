"""This library and others: the same model file, the same schema, the same text written.

    python -m benchmarks.peers [-m MODEL.gguf | --shape 0.6b --dtype Q8_0] [--guidance FOLDER]
                               [--repeats 5] [--threads N]

Peers: llama-cpp-python's `create_completion` with its GBNF grammar (`LlamaGrammar`), the same
without a grammar, and guidance 0.3, which needs another llguidance and so a virtual environment of
its own: FOLDER, which is made if there is none (pip installs guidance and the llama-cpp-python of
this environment there). Without --guidance it is left out. Without -m the model of the package is
used, or one with random weights is made as in `benchmarks.forced`.

To be fair:

- A call is one JSON object, one of three tools and its arguments; all get the same schema, read the
  same rendered prompt and write the same text with the separators ", " and ": ", its keys in the
  order of the schema. This library may also let the model choose the order, as it does by default:
  a row of its own.
- What a small model says differs from grammar to grammar. So the text is imposed: the next token of
  it is made the most likely one where the logits are (of this library, where it samples, after
  the sampler chain). All else, masks and samplers, does its work. Greedy, without penalties.
- One process each with the same threads, batch and flash attention, on the same build of llama.cpp.
  Their runs alternate, so that a slower minute of the machine meets all; medians.
- Grammars and tokenizers are made beforehand, where a peer can keep them. Each call does the rest
  anew: this library renders the messages, compiles or looks up, and checks the answer; the others
  get the finished prompt.
- "fresh": no token of the prompt but the first few is known. "cached": the prompt of the call
  before. "first": until the first text of a stream arrives.
"""

import argparse
import json
import statistics
import subprocess
import sys
import venv
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.forced import make_model
from benchmarks.peer_processes.lines import Answer, Ask
from constrained import embedded, load
from constrained.engine.host import physical_cores
from constrained.job import Job
from constrained.model.model import Model
from grammars.turn import Think

NOTE = (
    "The ferry to the north island leaves at half past seven from the old harbour, not from the "
    "new one, so be there a quarter of an hour before. Take the red umbrella and the warm coat, "
    "because the wind is strong on the upper deck. The tickets are in the left pocket of the blue "
    "bag, next to the map of the city. When you arrive, walk along the beach to the white house "
    "behind the church and ask for the key; the owner knows that you come. There is bread and "
    "cheese in the kitchen, and the water is good to drink. Please feed the cat in the morning and "
    "close the green gate in the evening, or the sheep will eat the flowers again. Call me when "
    "you have found the letter in the drawer of the small table."
)
TEXTS = {
    "short": (
        "What's the weather in Paris tomorrow, in celsius?",
        {"city": "Paris", "day": "tomorrow", "unit": "celsius"},
        "get_weather",
    ),
    "long": (
        f"Send Anna this note, and say that it is urgent: {NOTE}",
        {"to": "Anna", "text": NOTE, "urgent": True},
        "send_note",
    ),
}
OURS = ("constrained", "constrained, any key order")
WAYS = {OURS[0]: "constrained", OURS[1]: "constrained", "GBNF": "gbnf", "unconstrained": "gbnf"}
CONTEXT = "2048"  # tokens
GUIDANCE = ("guidance>=0.3,<0.4", f"llama-cpp-python=={version('llama-cpp-python')}")
"""What guidance's virtual environment has: the build of llama.cpp is that of this one."""
COLUMNS = ("fresh", "cached", "first, fresh", "first, cached")


def _object(**properties: Any) -> dict[str, Any]:
    closed = {"required": list(properties), "additionalProperties": False}
    return {"type": "object", "properties": properties} | closed


def _tool(name: str, **arguments: Any) -> dict[str, Any]:
    return _object(name={"const": name}, arguments=_object(**arguments))


TEXT = {"type": "string"}
SCHEMA = {
    "anyOf": [
        _tool(
            "get_weather",
            city=TEXT,
            day={"enum": ["today", "tomorrow"]},
            unit={"enum": ["celsius", "fahrenheit"]},
        ),
        _tool("send_note", to=TEXT, text=TEXT, urgent={"type": "boolean"}),
        _tool("set_alarm", hour={"type": "integer"}, weekdays_only={"type": "boolean"}),
    ]
}


class Peer:
    """A process that answers."""

    def __init__(self, name: str, process: "subprocess.Popen[str]"):
        self._name = name
        self._process = process
        self._read()

    def ask(self, ask: Ask) -> Answer:
        """Asks for one call."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(asdict(ask)) + "\n")
        self._process.stdin.flush()
        answer = Answer(**self._read())
        if ask.text is not None and answer.text.strip() != ask.text:
            wrote = answer.error or f"wrote {answer.text!r}"
            raise SystemExit(f"{ask.way}: {wrote}, not {ask.text!r}")
        return answer

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self._name} has ended")
        return json.loads(line)


@contextmanager
def start(python: str, name: str, *arguments: str) -> Iterator[Peer]:
    """The process of `benchmarks.peer_processes.NAME_peer`; it ends with the block."""
    command = [python, "-m", f"benchmarks.peer_processes.{name}_peer", *arguments]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        yield Peer(name, process)
        assert process.stdin
        process.stdin.close()


def prepare(folder: Path, packages: Sequence[str] = GUIDANCE) -> str:
    """Returns the Python of a virtual environment with these packages; both are made if they are
    not there.

    Args:
        folder: of the virtual environment.
        packages: requirements, as pip reads them.
    """
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    # Where they are installed already, pip asks no index.
    subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    return str(python)


def make_ask(model: Model, way: str, size: str, number: int, *, stream: bool) -> Ask:
    """Returns a call; another number is another prompt, from its first words on."""
    question, arguments, name = TEXTS[size]
    system = {"role": "system", "content": f"Request {number}. Answer with a call, as JSON."}
    messages = [system, {"role": "user", "content": question}]
    think = Think.FORBIDDEN if model.compiler.format.reasoning else Think.OPTIONAL
    prompt = model.compile(Job(messages, think=think)).prompt.text
    text = json.dumps({"name": name, "arguments": arguments})
    return Ask(way, messages, prompt, SCHEMA, text, stream)


Times = dict[tuple[str, str], list[float]]


def measure(
    model: Model, peers: Mapping[str, Peer], size: str, repeats: int
) -> tuple[Times, dict[str, list[Answer]]]:
    """Returns the seconds by way and column, and the last answers, fresh and cached, by way."""
    times: Times = defaultdict(list)
    answers: dict[str, list[Answer]] = {}
    for number in range(repeats + 1):  # the first one warms up
        for place, (way, peer) in enumerate(peers.items()):
            for stream in (False, True):
                unique = 1000 + (number * len(peers) + place) * 2 + stream
                ask = make_ask(model, way, size, unique, stream=stream)
                pair = [peer.ask(ask), peer.ask(ask)]  # the second prompt is cached
                if not stream:
                    answers[way] = pair
                for name, answer in zip(COLUMNS[2 * stream :], pair, strict=False):
                    times[way, name].append(answer.seconds)
    return {key: values[1:] for key, values in times.items()}, answers


def main() -> None:
    """Prints a table for each kind of call."""
    parser = argparse.ArgumentParser(description="This library beside others.")
    parser.add_argument("-m", "--model", type=Path)
    parser.add_argument("--shape", choices=("small", "0.6b"))
    parser.add_argument("--dtype", default="Q8_0")
    parser.add_argument("--guidance", type=Path, metavar="FOLDER")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=physical_cores())
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        path = options.model or embedded.PATH
        if options.shape and not options.model:
            path = make_model(Path(folder) / "random.gguf", options.shape, options.dtype)
        _measure_all(path, options)
    if not options.guidance:
        print("guidance is left out: --guidance FOLDER names a virtual environment for it")


def _measure_all(path: Path, options: argparse.Namespace) -> None:
    pythons, ways = {"constrained": sys.executable, "gbnf": sys.executable}, dict(WAYS)
    if options.guidance:
        pythons["guidance"] = prepare(options.guidance)
        ways["guidance"] = "guidance"
    arguments = (str(path), str(options.threads), CONTEXT)
    with ExitStack() as stack:
        run = {k: stack.enter_context(start(v, k, *arguments)) for k, v in pythons.items()}
        model = stack.enter_context(load(path, threads=1, context_length=64))  # renders prompts
        for size in TEXTS:
            peers = {way: run[name] for way, name in ways.items()}
            _print(size, *measure(model, peers, size, options.repeats))


def _print(size: str, times: Times, answers: dict[str, list[Answer]]) -> None:
    own, _ = answers[OURS[0]]
    print(
        f"{size} call: {own.tokens} tokens, {own.prompt_tokens} of the prompt. Medians of ms, and"
    )
    print("how many times those of the first row; runs of the model, fresh and cached")
    print(f"{'':<28}" + "".join(f"{name:>17}" for name in COLUMNS) + f"{'runs':>8}")
    for way, (fresh, cached) in answers.items():
        cells = ""
        for name in COLUMNS:
            own = statistics.median(times[way, name])
            ours = statistics.median(times[OURS[0], name])
            cells += f"{1000 * own:>9.1f} ({own / ours:4.1f}x)"
        print(f"{way:<28}{cells}{fresh.passes:>5},{cached.passes:>4}")


if __name__ == "__main__":
    main()
