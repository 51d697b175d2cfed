"""Text is text: documents, code and JSON contain no call in another envelope, and stay as they are.

What a document really calls at the beginning of a line is a call. So the tools have names that
occur in these texts, and are looked for in files that call none of them as a model would.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammars.parse.parser import Parser, collect
from grammars.schema.lowering.lower import lower
from grammars.turn import Event, Tool, Turn
from grammars.wire.format import Format
from grammars.wire.formats import GENERIC, HERMES, LLAMA3_JSON, QWEN3_CODER

ROOT = Path(__file__).parents[3]
SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "path": {"type": "string"},
        "text": {"type": "string"},
    },
}
NAMES = ("get_weather", "main", "load", "print", "parse", "read_file", "search", "name")
TOOLS = [Tool(name, lower(SCHEMA)) for name in NAMES]
QUOTED = {"name": "get_weather", "description": "The weather.", "parameters": SCHEMA}
PACKAGES = ("grammars", "constrained", "examples", "benchmarks")


def find_documents() -> Iterator[Path]:
    yield from ROOT.glob("*.md")
    yield from (ROOT / "docs").rglob("*.md")
    for package in PACKAGES:
        yield from (ROOT / package).rglob("*.py")


def read(pieces: list[str], format: Format) -> Turn:
    """What the parser of a stream reads, in which no call begins."""
    parser = Parser(format, TOOLS, stream=True, foreign=NAMES)
    events: list[Event] = []
    for piece in pieces:
        events += parser.feed(piece)
        assert parser.foreign_call is None
    return collect([*events, *parser.close()])


def cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def test_documents_and_code_stay_as_they_are() -> None:
    documents = list(find_documents())
    assert len(documents) > 300
    for document in documents:
        text = document.read_text(encoding="utf-8")
        assert read(cut(text, 1000), LLAMA3_JSON) == Turn(text), document


QUOTATIONS = {
    "a tool": json.dumps(QUOTED),
    "a tool over lines": json.dumps(QUOTED, indent=2),
    "a tool without description": json.dumps({"name": "get_weather", "parameters": SCHEMA}),
    "a tool of OpenAI": json.dumps({"type": "function", "function": QUOTED}, indent=1),
    "tools": json.dumps([{"type": "function", "function": QUOTED}] * 2),
    "a schema with its keys sorted": json.dumps(
        {"name": "get_weather", "parameters": SCHEMA}, sort_keys=True
    ),
    "a schema that begins with its properties": json.dumps(
        {"name": "get_weather", "parameters": {"properties": SCHEMA["properties"]}}
    ),
    "an unknown tool": '{"name": "get_news", "arguments": {"city": "Paris"}}',
    "a name that begins like one": '{"name": "get_weather_now", "arguments": {"city": "Paris"}}',
    "a name alone": '{"name": "get_weather"}',
    "a person": '{"name": "main", "age": 3, "arguments": ["a"]}',
    "an answer": '{"city": "Paris", "temperature": 21, "text": "name"}',
    "another member first": '{"thought": "So.", "name": "get_weather", "arguments": {"city": ""}}',
    "arguments that are a list": '{"name": "get_weather", "arguments": ["Paris"]}',
    "code": 'if __name__ == "__main__":\n    main()\n\nprint("text")\nload(path)\n',
    "an undeclared keyword": 'print(sep="")\nload(file=path)',
    "a comparison": "search(text==path)",
    "a call with arguments by position": 'get_weather("Paris")',
    "an empty call": "get_weather()",
    "a method": 'weather.get_weather(city="Paris")',
    "a call in a sentence": 'Use get_weather(city="Paris") for that.',
    "a call in inline code": '`get_weather(city="Paris")`',
    "a call in a sentence of JSON": 'Write {"name": "get_weather", "arguments": {"city": ""}}.',
    "a call in a fence of code": '```python\nget_weather(city="Paris")\n```',
    "a call in a fence after text": '```\n$ run\nget_weather(city="Paris")\n```',
    "a call in an item": '- get_weather(city="Paris")',
    "a call in a quotation": '> {"name": "get_weather", "arguments": {"city": "Paris"}}',
    "an assignment": 'text = get_weather(city="Paris")',
    "tags": '<b>Paris</b>\n<city name="get_weather">\nParis\n</city>',
    "a page": "<html>\n<body>\n<main>\n{text}\n</main>",
    "a link": "[main](https://example.org)\n[get_weather]: # (text)",
    "a list": '[1, 2, {"name": "load"}]',
    "a heading": "# main\n\n## load(path)\n",
    "an opened fence": "```json\n",
    "an opened object": '{"name": "get_weather", "arguments": ',
    "a table": "| name | text |\n|---|---|\n| load | main |",
    "a number in brackets": "[1] load\n[2] main",
}


@pytest.mark.parametrize("format", [HERMES, GENERIC, QWEN3_CODER], ids=lambda format: format.name)
@pytest.mark.parametrize("name", QUOTATIONS)
def test_what_only_looks_like_a_call_stays_as_it_is(name: str, format: Format) -> None:
    quoted = QUOTATIONS[name]
    texts = [quoted, f"Hi.\n{quoted}\n\nSo."]
    if "```" not in quoted:
        texts.append(f"```json\n{quoted}\n```\nSo.")
    for text in texts:
        assert read([text], format) == Turn(text)
        assert read(list(text), format) == Turn(text)


LINES = st.one_of(
    st.sampled_from([*NAMES, "", " ", "  ", "{", "}", "[", "]", "```", "```json", "<", ">", '"']),
    st.sampled_from(sorted(QUOTATIONS.values())),
    st.text(max_size=40),
)


@given(
    st.lists(LINES, max_size=8),
    st.sampled_from(["\n", " ", "\n\n"]),
    st.integers(min_value=1, max_value=30),
)
def test_any_of_these_lines_are_text(lines: list[str], between: str, size: int) -> None:
    text = between.join(lines)
    parser = Parser(HERMES, TOOLS, stream=True, foreign=NAMES)
    events: list[Event] = []
    for piece in cut(text, size):
        events += parser.feed(piece)
        if parser.foreign_call is not None:  # a line may begin amid of another one
            events += parser.decline()
    turn = collect([*events, *parser.close()])
    assert turn == Turn(text)
