"""How good models are at calling tools, free and with the mask.

    python -m examples.demo_model.evaluate model-Q8_0.gguf model-Q2_K.gguf [--plot out.png]

Asks 200 questions of seen families, 200 of unseen ones, 100 written by hand and 200 about results
of tools; always takes the likeliest token. Prints a table in Markdown.
"""

import argparse
import json
import statistics
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jsonschema_rs

from constrained import Model, Sampling, load
from constrained.engine.llamacpp import load as load_engine
from constrained.engine.protocol import Chunk, Engine
from constrained.errors import ReplyError
from constrained.model.compile.compiled_turn import CompiledTurn
from constrained.prompt.job import Job
from examples.demo_model.exam import Question, draw_questions

GROUPS = ("seen", "unseen", "handwritten", "results")
GREEDY = Sampling(temperature=0)
MAX_TOKENS = 256
OPEN, CLOSE, THOUGHT, END = "<tool_call>", "</tool_call>", "</think>", "<|im_end|>"


@dataclass(frozen=True)
class Answer:
    """What a model made of a question.

    Attributes:
        calls: names and arguments; None where a call cannot be read.
        finished: whether the turn has ended by itself.
        content: the text beside calls and reasoning.
        milliseconds, passes: what it took, the prompt included.
        closed: whether the tokens ran out behind a call that is whole; the reserve closes the last
            one.
    """

    calls: list[dict[str, Any]] | None
    finished: bool
    milliseconds: float
    passes: int
    content: str = ""
    closed: bool = False


@dataclass(frozen=True)
class Row:
    """A line of the table: shares of all questions, and means."""

    model: str
    group: str
    mask: bool
    questions: int
    finished: float
    valid: float
    exact: float
    milliseconds: float
    passes: float


def ask_masked(model: Model, turn: CompiledTurn) -> Answer:
    """The product's own way."""
    started = time.perf_counter()
    try:
        reply = model.complete([turn], max_tokens=MAX_TOKENS, sampling=GREEDY)[0]
    except ReplyError:
        return Answer(None, True, 1000 * (time.perf_counter() - started), 0)
    spent = 1000 * (time.perf_counter() - started)
    calls = [{"name": call.name, "arguments": call.arguments} for call in reply.calls]
    finished = reply.finish_reason != "length"
    closed = bool(calls) and not finished and not reply.unfinished
    return Answer(calls, finished, spent, reply.usage.forward_passes, reply.content, closed)


def ask_free(engine: Engine, turn: CompiledTurn) -> Answer:
    """Token by token, without a mask, as llama.cpp alone would go on."""
    started = time.perf_counter()
    end = engine.vocabulary.encode_special(END)[0]
    tokens, written = list(turn.tokens), list[int]()
    logits = engine.decode([Chunk(0, tokens, 0)])[0]
    passes = 1
    while len(written) < MAX_TOKENS and (token := int(logits.argmax())) != end:
        logits = engine.decode([Chunk(0, [token], len(tokens) + len(written))])[0]
        written.append(token)
        passes += 1
    engine.release(0)
    text = b"".join(engine.vocabulary.tokens[token] for token in written).decode(errors="replace")
    spent = 1000 * (time.perf_counter() - started)
    finished, calls = len(written) < MAX_TOKENS, read_calls(text)
    content = text.rpartition(THOUGHT)[2]
    return Answer(calls, finished, spent, passes, content, bool(calls) and not finished)


def read_calls(text: str) -> list[dict[str, Any]] | None:
    """The calls of a turn, strictly; None where one is damaged."""
    calls = list[dict[str, Any]]()
    for piece in text.split(OPEN)[1:]:
        body, closed, _ = piece.partition(CLOSE)
        try:
            call = json.loads(body)
        except ValueError:
            return None
        if not (closed and isinstance(call, dict) and call.keys() == {"name", "arguments"}):
            return None
        calls.append(call)
    return calls


def is_valid(answer: Answer, question: Question) -> bool:
    """Whether the turn has ended, and its calls name tools on offer and fit their schemas."""
    if answer.calls is None or not (answer.finished or answer.closed):
        return False
    schemas = {
        tool["function"]["name"]: tool["function"]["parameters"] | {"additionalProperties": False}
        for tool in question.tools
    }
    return all(
        call["name"] in schemas and jsonschema_rs.is_valid(schemas[call["name"]], call["arguments"])
        for call in answer.calls
    )


def is_exact(answer: Answer, question: Question) -> bool:
    """Whether the calls are the right ones, in the right order, and no more; whether an answer
    about a result mentions all of it."""
    is_right = answer.finished and _plain(answer.calls) == _plain(question.calls)
    return is_right and all(part in answer.content for part in question.says)


def _plain(value: Any) -> str:
    """JSON that is the same for the same value: 2 and 2.0 are, 1 and true are not."""
    whole = json.loads(json.dumps(value), parse_float=lambda text: _shorten(float(text)))
    return json.dumps(whole, sort_keys=True)


def _shorten(number: float) -> float:
    return int(number) if number.is_integer() else number


def evaluate(
    model: Model, engine: Engine, name: str, group: str, count: int, *, thinking: bool = False
) -> Iterable[tuple[Row, list[Any]]]:
    """A row without and one with the mask, and what went wrong in each."""
    questions = draw_questions(group, count)
    kwargs = {"enable_thinking": True} if thinking else {}
    jobs = [Job(q.messages, q.tools, template_kwargs=kwargs) for q in questions]
    turns = [model.compile(job) for job in jobs]
    for mask in (False, True):
        answers = [ask_masked(model, t) if mask else ask_free(engine, t) for t in turns]
        pairs = list(zip(answers, questions, strict=True))
        wrong = [
            {"text": q.text, "right": q.calls, "written": a.calls, "said": a.content}
            for a, q in pairs
            if not is_exact(a, q)
        ]
        row = Row(
            name,
            group,
            mask,
            len(pairs),
            _mean(a.finished for a in answers),
            _mean(is_valid(a, q) for a, q in pairs),
            _mean(is_exact(a, q) for a, q in pairs),
            _mean(a.milliseconds for a in answers),
            _mean(a.passes for a in answers),
        )
        yield row, wrong


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers)


def show_table(rows: list[Row]) -> str:
    """The rows as a table in Markdown: one line a model and group, free -> with the mask."""
    lines = [
        "| model | questions | finished | valid | exact | ms a turn | forward passes a turn |",
        "|---|---|---|---|---|---|---|",
    ]
    for free, masked in zip(rows[::2], rows[1::2], strict=True):
        cells = [f"{free.model}", f"{free.questions} {free.group}"]
        cells += [
            f"{getattr(free, part):.1%} → {getattr(masked, part):.1%}"
            for part in ("finished", "valid", "exact")
        ]
        cells += [
            f"{getattr(free, part):.1f} → {getattr(masked, part):.1f}"
            for part in ("milliseconds", "passes")
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def time_loading(path: Path) -> float:
    """Milliseconds until a model is there to be asked, the median of five."""
    times = list[float]()
    for _ in range(5):
        started = time.perf_counter()
        load(path).close()
        times.append(1000 * (time.perf_counter() - started))
    return statistics.median(times)


def main() -> None:
    """Evaluates the models of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--count", type=int, default=200, help="questions of a drawn group")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--thinking", action="store_true", help="let the model think first")
    parser.add_argument("--plot", type=Path, help="a PNG file to write")
    parser.add_argument("--rows", type=Path, help="a JSON file for the rows and the wrong answers")
    options = parser.parse_args()
    rows, wrong = list[Row](), list[Any]()
    for path in options.models:
        threads, thinking = options.threads, options.thinking
        with load(path, threads=threads) as model, load_engine(path, threads=threads) as engine:
            for group in GROUPS:
                given: Any = (model, engine, path.stem, group, options.count)
                for row, mistakes in evaluate(*given, thinking=thinking):
                    rows.append(row)
                    wrong.append(asdict(row) | {"wrong": mistakes})
    print(show_table(rows))
    for path in options.models:
        size, ms = path.stat().st_size / 1e6, time_loading(path)
        print(f"{path.name}: {size:.2f} MB, ready after {ms:.0f} ms")
    if options.rows:
        options.rows.write_text(json.dumps(wrong, ensure_ascii=False, indent=1), encoding="utf-8")
    if options.plot:
        from examples.demo_model.plot import draw

        draw(rows, options.plot)


if __name__ == "__main__":
    main()
