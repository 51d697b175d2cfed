"""Tool search: how often it finds the right tools, and what it saves of the prompt and the KV
cache.

    python -m benchmarks.tool_search FOLDER [--rows 400] [--runs 3] [--model PATH]

FOLDER has `tool.jsonl` and the splits (`dev.jsonl`, `test_in_domain.jsonl`,
`test_out_domain.jsonl`) of Seal-Tools: 4,076 tools, and questions with the calls that answer them.

Found: the query is all that the user says, the catalogue has the tools of the question and others
at random; each tool that a question needs counts by itself, and most questions need three.
Tokens: the prompt of the first question, with the whole catalogue in it or with the search alone.
Cache: conversations in which each call follows the search that finds its tool, written from the
data. The tools that were found are hidden tools, or they join those of the prompt.
"""

import argparse
import json
import random
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from constrained import FunctionTool, Model, Sampling, ToolSearch, load
from constrained.compile.compiler import Compiler
from constrained.job import Job

SPLITS = ("test_out_domain", "test_in_domain", "dev")
SIZES, PLACES = (10, 100, 1000, 4000), (1, 5, 10)
SHOWN = 1000  # tools of a prompt, at most: a request may have no more
CATALOGUE, CALLS, TOP = 100, 3, 5  # of the conversations
CONTEXT = 8192
TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
RESULT = json.dumps({"status": "done", "items": ["first", "second", "third"]})
Json = dict[str, Any]


@dataclass(frozen=True)
class Question:
    """What a user says, and the calls that answer it: names and arguments."""

    text: str
    calls: tuple[tuple[str, Json], ...]

    @property
    def names(self) -> list[str]:
        """The tools that it needs."""
        return list(dict.fromkeys(name for name, _ in self.calls))


def read_tools(folder: Path) -> dict[str, FunctionTool]:
    """Returns the tools by name."""
    tools: dict[str, FunctionTool] = {}
    for row in _read_lines(folder / "tool.jsonl"):
        properties: Json = {}
        for name, given in (row["parameters"] or {}).items():
            described = {"type": TYPES[given["type"]], "description": given.get("description", "")}
            properties[name] = described
        schema = {
            "type": "object",
            "properties": properties,
            "required": [name for name in row.get("required") or () if name in properties],
        }
        name, description = row["api_name"], row["api_description"]
        tools[name] = FunctionTool.from_schema(name, schema, description=description)
    return tools


def read_questions(folder: Path) -> list[Question]:
    """Returns the questions of all splits."""
    questions: list[Question] = []
    for split in SPLITS:
        for row in _read_lines(folder / f"{split}.jsonl"):
            calls = tuple((call["api"], call["parameters"]) for call in row["calling"])
            questions.append(Question(row["query"], calls))
    return questions


def _read_lines(path: Path) -> Iterator[Json]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def choose_tools(
    tools: Mapping[str, FunctionTool], needed: Sequence[str], size: int, rng: random.Random
) -> list[FunctionTool]:
    """Returns a catalogue of some size that has the needed tools."""
    others = [name for name in tools if name not in needed]
    names = [*needed, *rng.sample(others, size - len(needed))]
    rng.shuffle(names)
    return [tools[name] for name in names]


def count_hits(
    tools: Mapping[str, FunctionTool], questions: Sequence[Question], size: int
) -> tuple[int, dict[int, int]]:
    """Returns how many tools the questions need, and how many of those are among the first ones
    found."""
    rng = random.Random(size)
    needed, hits = 0, dict.fromkeys(PLACES, 0)
    together = max(1, size // 10)  # questions that share a catalogue
    for first in range(0, len(questions), together):
        asked = questions[first : first + together]
        names = list(dict.fromkeys(name for one in asked for name in one.names))
        catalogue = choose_tools(tools, names, size, rng)
        search = ToolSearch(catalogue, top=max(PLACES))
        for question in asked:
            found = search.find(question.text)
            needed += len(question.names)
            for place in PLACES:
                hits[place] += sum(name in found[:place] for name in question.names)
    return needed, hits


def count_tokens(model: Model, question: Question, tools: Sequence[Any]) -> int:
    """Returns the tokens of a prompt, whether the context has room for it or not."""
    compiler = Compiler(model.engine.vocabulary, model.compiler.template)
    job = Job([{"role": "user", "content": question.text}], tools, tool_choice="none")
    return len(compiler.compile(job).prompt.tokens)


def write_call(id: str, name: str, arguments: Json, result: str) -> list[Json]:
    """Returns a call in a conversation, and its result."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    call = {"id": id, "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": id, "name": name, "content": result},
    ]


def write_conversation(question: Question, search: ToolSearch) -> Iterator[list[Json]]:
    """Yields the messages of each turn: after the question, each search and each call."""
    messages: list[Json] = [{"role": "user", "content": question.text}]
    yield list(messages)
    for number, (name, arguments) in enumerate(question.calls[:CALLS]):
        found = json.dumps(search.search(name))
        messages += write_call(f"find{number:05}", search.tool.name, {"query": name}, found)
        yield list(messages)
        messages += write_call(f"call{number:05}", name, arguments, RESULT)
        yield list(messages)


def count_evaluated(
    model: Model, question: Question, search: ToolSearch, *, is_hidden: bool
) -> list[int]:
    """Returns the tokens of each turn's prompt that the model evaluates anew; no other conversation
    shares what was computed."""
    evaluated: list[int] = []
    for messages in write_conversation(question, search):
        tools, found = [search.tool], search.list_found(messages)
        if not is_hidden:
            tools, found = [*tools, *found], []
        reply = model.call(
            messages,
            tools,
            hidden_tools=found,
            tool_choice="none",
            max_tokens=1,
            cache_salt=f"{is_hidden} {question.text}",
            sampling=Sampling(temperature=0),
        )
        evaluated.append(reply.usage.prompt_tokens - reply.usage.cached_tokens)
    return evaluated


def main() -> None:
    """Counts, and prints three tables."""
    parser = argparse.ArgumentParser(description="Search of tools.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=400, help="questions that are searched for")
    parser.add_argument("--runs", type=int, default=3, help="conversations")
    parser.add_argument("--model", default="smollm2")
    options = parser.parse_args()
    tools, questions = read_tools(options.folder), read_questions(options.folder)
    random.Random(0).shuffle(questions)
    print(f"{len(tools):,} tools, {len(questions):,} questions")
    print(f"{'tools':>6} {'needed':>7} " + " ".join(f"{f'hits at {n}':>11}" for n in PLACES))
    for size in SIZES:
        needed, hits = count_hits(tools, questions[: options.rows], size)
        shares = " ".join(f"{hits[place] / needed:>11.1%}" for place in PLACES)
        print(f"{size:>6} {needed:>7} {shares}")
    rng = random.Random(0)
    asked = [one for one in questions if len(one.calls) >= CALLS][: options.runs]
    with load(options.model, context_length=CONTEXT, threads=1) as model:
        print(f"\n{'tools':>6} {'tokens, all':>12} {'with search':>12}")
        for size in [size for size in SIZES if size <= SHOWN]:
            catalogue = choose_tools(tools, questions[0].names, size, rng)
            whole = count_tokens(model, questions[0], catalogue)
            searched = count_tokens(model, questions[0], [ToolSearch(catalogue).tool])
            print(f"{size:>6} {whole:>12,} {searched:>12,}")
        print(f"\ntokens evaluated in each of {2 * CALLS + 1} turns, median of {len(asked)} runs")
        for is_hidden, label in ((True, "search"), (False, "tools change")):
            turns: list[list[int]] = []
            for question in asked:
                catalogue = choose_tools(tools, question.names, CATALOGUE, random.Random(1))
                search = ToolSearch(catalogue, top=TOP)
                turns.append(count_evaluated(model, question, search, is_hidden=is_hidden))
            medians = [round(statistics.median(turn)) for turn in zip(*turns, strict=True)]
            total = round(statistics.median(map(sum, turns)))
            print(
                f"{label:<13}" + " ".join(f"{count:>6}" for count in medians) + f"  sum {total:,}"
            )


if __name__ == "__main__":
    main()
