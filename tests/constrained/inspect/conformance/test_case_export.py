"""`constrained suite --export`: cases that other test suites can read, and that we judge alike."""

import json
from pathlib import Path

import pytest

from constrained.inspect.conformance.case_export import export_cases
from constrained.inspect.conformance.finding import make_id
from constrained.inspect.conformance.rows import read_corpus, read_packaged_rows
from constrained.inspect.replay.check import check_rows
from grammars.wire.format import Format
from grammars.wire.formats import FORMATS, HERMES
from tests.command_line import Run
from tests.snippets import ROOT, read_snippets


@pytest.mark.parametrize("name", ["hermes", "qwen3_coder", "mistral", "lfm2"])
def test_the_grammar_accepts_each_case_and_our_parser_reads_what_it_expects(
    run: Run, tmp_path: Path, name: str
) -> None:
    code, out, _ = run("suite", "--export", "--format", name, "--examples", "4")
    assert code == 0
    cases = [json.loads(line) for line in out.splitlines()]
    assert {case["check"] for case in cases} >= {"reads_back", "reads_tags_in_values"}
    assert len({case["id"] for case in cases}) == len(cases)
    for case, answer in zip(cases, check_rows(cases), strict=True):
        assert case["version"] == 1
        assert answer["accepted"]
        assert answer["complete"]
        assert all("".join(chunks) == case["text"] for chunks in case["chunkings"])
    rows = list(read_corpus(cases))
    assert [row.text for row in rows] == [case["text"] for case in cases]
    assert all(row.is_whole for row in rows)


@pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.name)
def test_every_format_has_cases(format: Format) -> None:
    assert list(export_cases(format, rows=(), examples=2, seed=0))


def test_the_same_seed_gives_the_same_cases() -> None:
    rows = list(read_corpus(read_packaged_rows()))
    first, second = (
        list(export_cases(FORMATS[0], rows=rows, examples=4, seed=7)) for _ in range(2)
    )
    assert first == second


def test_the_case_in_the_documentation_is_a_real_one() -> None:
    page = (ROOT / "docs/testing-parsers.md").read_text("utf-8")
    shown = [json.loads(one.code) for one in read_snippets(page) if one.language == "json"][-1]
    rows = list(read_corpus(read_packaged_rows()))
    assert shown in list(export_cases(HERMES, rows=rows, examples=1, seed=0))


def test_equal_texts_of_two_formats_have_two_ids() -> None:
    text = {"tools": [], "text": "Hi"}
    ids = {make_id("reads_back", text, format=format.name) for format in FORMATS}
    assert len(ids) == len(FORMATS)


def test_the_command_says_what_export_needs(run: Run) -> None:
    code, _, err = run("suite", "--export")
    assert code == 2
    assert "--export needs the --format" in err
    code, _, err = run("suite", "--export", "--format", "hermes", "--known", "ids.txt")
    assert code == 2
    assert "--known is for findings" in err
