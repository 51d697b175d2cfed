"""Failures with one cause are one finding, and faults beside each other are told apart."""

import json
import re
from collections.abc import Callable, Sequence

import pytest
from hypothesis import settings

from grammars.suite import CHECKS, Claims, Reading, find_failures
from grammars.suite.changes import ChangeKind, find_changes
from grammars.suite.draws import Draws
from grammars.suite.reading import CheckedParser, ParserFailure
from grammars.suite.run import Failure
from grammars.suite.strategies import make_tool
from grammars.turn import Tool
from grammars.wire.formats import HERMES

CALL = re.compile(r"<tool_call>\s*(.*?)\s*</tool_call>", re.DOTALL)
CLAIMS = Claims(reasoning=False, space=False, damage=False)
SOME = settings(max_examples=50, database=None)
KINDS = {
    "strips values": ChangeKind.STRIPPED,
    "numbers as text": ChangeKind.BECAME_TEXT,
    "drops equal calls": ChangeKind.REPEAT_LOST,
    "ends at a tag": ChangeKind.CALL_AS_TEXT,
}


def spoil(value: object, faults: Sequence[str]) -> object:
    match value:
        case str() if "strips values" in faults:
            return value.strip()
        case int() | float() if "numbers as text" in faults and not isinstance(value, bool):
            return str(value)
        case list():
            return [spoil(item, faults) for item in value]
        case dict():
            return {key: spoil(item, faults) for key, item in value.items()}
        case _:
            return value


def find_calls(text: str, faults: Sequence[str]) -> list[tuple[int, int]]:
    """The places of calls: up to the first closing tag, or up to the end of their JSON."""
    if "ends at a tag" in faults:
        return [match.span() for match in CALL.finditer(text)]
    decoder = json.JSONDecoder()
    places: list[tuple[int, int]] = []
    end = 0
    for match in re.finditer(r"<tool_call>\s*", text):
        if match.start() >= end:
            end = decoder.raw_decode(text, match.end())[1]
            end = text.index("</tool_call>", end) + len("</tool_call>")
            places.append((match.start(), end))
    return places


def make_parser(*faults: str) -> Callable[[Sequence[Tool]], Callable[[str], Reading]]:
    """A parser around two regular expressions, with the faults that are named."""

    def parse(text: str) -> Reading:
        content, done = "", 0
        calls: list[tuple[str, object]] = []
        for start, end in find_calls(text, faults):
            content += text[done:start]
            done = end
            body = text[start:end].removeprefix("<tool_call>").removesuffix("</tool_call>")
            try:
                call = json.loads(body)
            except ValueError:
                content += text[start:end]
                continue
            read = (call["name"], spoil(call["arguments"], faults))
            if read not in calls or "drops equal calls" not in faults:
                calls.append(read)
        return Reading((content + text[done:]).strip(), calls=calls)

    return lambda tools: parse


def search(*faults: str, seed: int = 0) -> list[Failure]:
    checks = [check for check in CHECKS if check.name.startswith("reads_")]
    return find_failures(
        make_parser(*faults), HERMES, claims=CLAIMS, settings=SOME, seed=seed, checks=checks
    )


@pytest.mark.parametrize("seed", [0, 1])
def test_four_faults_are_four_findings_with_small_texts(seed: int) -> None:
    found = search(*KINDS, seed=seed)
    assert sorted(one.changes[0].kind for one in found) == sorted(KINDS.values())
    assert all(len(one.text) < 120 for one in found)


@pytest.mark.parametrize("fault", KINDS)
def test_each_fault_alone_is_one_finding(fault: str) -> None:
    (found,) = search(fault)
    assert found.changes[0].kind is KINDS[fault]
    is_tag = fault == "ends at a tag"
    assert list(found.checks) == ["reads_tags_in_values" if is_tag else "reads_back"]
    assert ("</tool_call>" in json.dumps(found.example.written.turn.calls[0].arguments)) == is_tag


def test_without_a_fault_nothing_is_found() -> None:
    assert search() == []


def test_given_tools_are_called_with_values_of_their_schemas() -> None:
    schema = {"type": "object", "properties": {"q": {"type": "string", "minLength": 3}}}
    tool = make_tool("find", {**schema, "required": ["q"]})
    draws = Draws(CheckedParser(make_parser(), HERMES, CLAIMS, (tool,)), SOME, seed=0)
    for written in (*draws.plain_corners, *draws.tagged_corners, *draws.plain, *draws.tagged):
        assert written.tools == (tool,)
        assert all(tool.schema.admits(call.arguments) for call in written.turn.calls)
    assert draws.tagged_corners


F, G = ("f", {"a": 1}), ("g", {})
WANTED = Reading("Hi", "Hm", calls=[F, G])


@pytest.mark.parametrize(
    ("got", "changes"),
    [
        (Reading("Ho", "Hm", calls=[F, G]), ["content: it is another text"]),
        (Reading("", "Hm", calls=[F, G]), ["content: all of it is lost"]),
        (Reading("Hi", "", calls=[F, G]), ["reasoning: all of it is lost"]),
        (Reading("Hi", "Hm", calls=[F]), ["a call is lost"]),
        (Reading("Hi g()", "Hm", calls=[F]), ["a call stays in the text"]),
        (Reading("Hi", "Hm", calls=[F, G, G]), ["a call is reported twice"]),
        (Reading("Hi", "Hm", calls=[F, G, ("h", {})]), ["a call is added"]),
        (Reading("Hi", "Hm", calls=[F, ("h", {})]), ["a call has another name"]),
        (Reading("Hi", "Hm", calls=[G, F]), ["the calls are in another order"]),
        (Reading("Hi", "Hm", calls=[("f", {"a": 2}), G]), ["argument: a value is another one"]),
        (Reading("Hi", "Hm", calls=[("f", {"a": "1"}), G]), ["argument: a value becomes text"]),
        (Reading("Hi", "Hm", calls=[("f", {}), G]), ["an argument is lost"]),
        (
            Reading("Hi", "Hm", calls=[("f", "{"), G]),
            ["the arguments of a call are no JSON object"],
        ),
    ],
)
def test_a_difference_is_said_in_plain_words(got: Reading, changes: list[str]) -> None:
    failure = ParserFailure("it is something else", ["text"], wanted=WANTED, got=got)
    assert [str(change) for change in find_changes(failure, Claims())] == changes
