"""What the page on testing parsers shows: its example fails where it says, and what it installs is
enough."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from grammars.suite import CHECKS, Claims, Reading, find_failures
from grammars.suite.parser_output import as_reading, read_result
from grammars.turn import Tool, ToolCall
from grammars.wire.formats import HERMES
from tests.command_line import Run
from tests.snippets import ROOT, read_snippets

PAGE = (ROOT / "docs/testing-parsers.md").read_text("utf-8")
FEW = settings(max_examples=20, derandomize=True, database=None)


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    (code,) = [one.code for one in read_snippets(PAGE) if one.language == "python"]
    names: dict[str, Any] = {}
    exec(code, names)
    return names


def test_the_example_fails_only_where_it_says(example: dict[str, Any]) -> None:
    found = find_failures(
        example["make_parser"], HERMES, claims=example["CLAIMS"], settings=FEW, seed=1
    )
    assert {failure.check for failure in found} == {"reads_tags_in_values"}
    assert "</tool_call>" in found[0].text


class Streaming:
    """The parser of the example, with deltas as the page describes them."""

    def __init__(self, tools: Sequence[Tool], *, spoils: str, example: dict[str, Any]):
        self._tools, self._spoils, self._example = tools, spoils, example
        self._text = ""

    def feed(self, text: str) -> list[dict[str, Any]]:
        self._text += text
        return []

    def close(self) -> list[dict[str, Any]]:
        deltas: list[dict[str, Any]] = []
        for index, call in enumerate(self._example["parse"](self._text, self._tools)):
            name, arguments = call
            text = json.dumps(arguments) + self._spoils
            deltas.append({"calls": [{"index": index, "name": name}]})
            deltas.append({"calls": [{"index": index, "arguments": text}]})
        return deltas


@pytest.mark.parametrize(("spoils", "fails"), [("", set()), ("}", {"reads_back"})])
def test_deltas_add_up_to_calls(example: dict[str, Any], spoils: str, fails: set[str]) -> None:
    checks = [check for check in CHECKS if check.name in ("reads_back", "streams_append")]
    found = find_failures(
        lambda tools: Streaming(tools, spoils=spoils, example=example),
        HERMES,
        claims=example["CLAIMS"],
        settings=FEW,
        checks=checks,
    )
    assert {failure.check for failure in found} >= fails
    assert bool(found) == bool(fails)


def test_a_parser_of_a_format_that_one_describes_is_checked(run: Run, tmp_path: Path) -> None:
    described = next(one.code for one in read_snippets(PAGE) if one.language == "json")
    format, tools, kept = (tmp_path / name for name in ("mine.json", "tools.json", "kept.jsonl"))
    format.write_text(described)
    schema = {"type": "object", "properties": {"note": {"type": "string"}}}
    tools.write_text(json.dumps([{"name": "send", "parameters": schema}]))
    parsers = "tests.grammars.suite.own_parsers"
    given = ("--format", str(format), "--tools", str(tools), "--examples", "4")
    code, out, _ = run("suite", "--parser", f"{parsers}:parse_mine", *given)
    assert (code, out.count("mine, claims types")) == (0, 1)
    # Of another format, it reads no call. What it fails on becomes a row.
    code, _, _ = run("suite", "--parser", f"{parsers}:parse_calls", *given, "--keep", str(kept))
    assert code == 1
    assert {json.loads(line)["format"] for line in kept.read_text().splitlines()} == {"mine"}


@pytest.mark.parametrize(
    ("written", "wrong", "message"),
    [
        ("JsonCall", "JsonCal", "JsonArguments or TaggedArguments or KeywordArguments"),
        ("before", "begin", "'begin' is not a field (at /begin)"),
        ('"<call>"', "5", "5 is not a text (at /call/0/text)"),
    ],
)
def test_a_mistake_in_a_format_is_told_with_its_place(
    run: Run, tmp_path: Path, written: str, wrong: str, message: str
) -> None:
    described = next(one.code for one in read_snippets(PAGE) if one.language == "json")
    path = tmp_path / "mine.json"
    path.write_text(described.replace(written, wrong))
    code, _, err = run("suite", "--cmd", "false", "--format", str(path))
    assert code == 2
    assert message in " ".join(err.split())


@pytest.mark.parametrize(
    "call",
    [
        ("f", {"a": 1}),
        ["f", '{"a": 1}'],
        {"name": "f", "arguments": {"a": 1}},
        {"type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
        ToolCall("f", {"a": 1}),
    ],
)
def test_calls_may_have_any_common_form(call: Any) -> None:
    assert as_reading(Reading(calls=[call]), []).calls == [("f", {"a": 1})]
    assert read_result([call]).calls == [("f", {"a": 1})]


@pytest.mark.parametrize("call", [{"name": "f"}, {"name": 5, "arguments": {}}, "f", 5, ("f",)])
def test_what_is_no_call_is_an_error_that_shows_it(call: Any) -> None:
    with pytest.raises(TypeError, match=f"pair of name and arguments.*{re.escape(repr(call))}"):
        read_result([call])


def test_claims_of_damage_need_content() -> None:
    with pytest.raises(ValueError, match="has to claim content"):
        Claims(content=False)


def test_what_the_page_installs_is_all_but_llama_cpp() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needed = {dependency.partition(">")[0] for dependency in project["dependencies"]}
    line = next(line for line in PAGE.splitlines() if line.startswith("pip install hypothesis"))
    assert set(line.split()[2:]) == needed - {"llama-cpp-python", "huggingface-hub"} | {
        "hypothesis"
    }
    code = (
        "import sys\n"
        "for name in ('llama_cpp', 'huggingface_hub'): sys.modules[name] = None\n"
        "import constrained.inspect.conformance.parser_check\n"
        "import constrained.inspect.conformance.case_export\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
