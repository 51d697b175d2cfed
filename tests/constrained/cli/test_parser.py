"""The command line: what it prints and returns, whatever it is given."""

import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from constrained.cli.parser import main
from constrained.cli.terminal.exit_codes import ExitCode
from examples.random_model import MARKERS, load_small, with_markers, write_model
from tests.command_line import Run, write
from tests.templates import HERMES, PAINT, PING, WRITE, hermes_call, tool

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    tokens = with_markers(load_small(), MARKERS)
    return str(write_model(tmp_path_factory.mktemp("model") / "m.gguf", tokens, HERMES))


@pytest.fixture
def tools(tmp_path: Path) -> str:
    return write(tmp_path / "tools.json", [PING, PAINT])


def test_a_call(run: Run, model: str, tools: str):
    for choice, name in (("paint", "paint"), ("ping", "ping")):
        given = ["-m", model, "--tools", tools, "--tool-choice", choice, "--reasoning", "off"]
        code, out, err = run("call", "hi", *given, "--seed", "1", "--json")
        assert (code, err) == (0, "")
        reply = json.loads(out)
        assert [call["name"] for call in reply["tool_calls"]] == [name]
        assert reply["finish_reason"] == "tool_calls"
        code, out, err = run("call", "hi", *given, "--seed", "1", "--show-prompt")
        assert out.startswith(f"{name}(")
        prompt, start = err.splitlines()
        assert prompt.startswith("constrained: note: prompt: ...")
        assert start == "constrained: note: the reply begins after its reasoning"


def test_options_of_a_call(run: Run, model: str, tools: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LLAMA_ARG_MODEL", model)
    monkeypatch.setenv("LLAMA_ARG_CTX_SIZE", "512")
    options = "--no-parallel --temp 0 --top-k 0 --top-p 1 --min-p 0 -t 1 -ngl 0 -fa off".split()
    options += ["--system", "Be brief.", "-n", "20", "--reasoning", "on", "--seed", "-1"]
    code, out, err = run("call", "hi", "--tools", tools, *options, "--show-prompt")
    assert code == ExitCode.CUT_OFF
    assert "the reply begins inside its reasoning" in err
    assert "(the tokens ran out: raise --max-tokens, or the context with -c)" in err
    assert "note" not in out
    monkeypatch.setenv("LLAMA_ARG_CTX_SIZE", "8")
    code, _, err = run("call", "hi")
    assert code == 2
    assert "context length is 8 tokens. However, your messages" in err
    monkeypatch.setenv("LLAMA_ARG_CTX_SIZE", "much")
    assert run("call", "hi") == (
        2,
        "",
        "constrained: error: LLAMA_ARG_CTX_SIZE is 'much', not a number\n",
    )
    assert (
        run("call", "hi", "-n", "1", "-c", "512")[0] == ExitCode.CUT_OFF
    )  # what is given is not asked for
    monkeypatch.delenv("LLAMA_ARG_CTX_SIZE")
    monkeypatch.setenv("LLAMA_ARG_FLASH_ATTN", "maybe")
    assert "LLAMA_ARG_FLASH_ATTN is 'maybe', not on, off or auto" in run("call", "hi")[2]


def test_what_is_kept_for_the_next_run(
    run: Run, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = tmp_path / "cache"
    words = ["call", "many words " * 60, "-m", model, "-n", "8", "--temp", "0"]
    words += ["--cache-dir", str(folder)]
    first = run(*words)
    assert (first[0], len(list(folder.iterdir()))) == (ExitCode.CUT_OFF, 1)
    assert run(*words, "-cram", "0") == first
    monkeypatch.setenv("LLAMA_ARG_CACHE_RAM", "all")
    assert "LLAMA_ARG_CACHE_RAM is 'all', not a number" in run(*words)[2]
    code, _, err = run(*words, "--cache-ram", "-2")
    assert (code, err) == (2, "constrained: error: cache_ram is -2, must be -1 or more\n")
    words[-1] = model
    code, _, err = run(*words, "-cram", "1")
    assert (code, "cannot be used for snapshots: File exists. Name another" in err) == (2, True)


@pytest.mark.parametrize("command", ["call", "chat"])
def test_as_many_tokens_as_the_context_has_room_for(
    run: Run, model: str, monkeypatch: pytest.MonkeyPatch, command: str
):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"hi\n")))
    message = ["hi"] if command == "call" else []
    words = [*message, "-m", model, "-n", "-1", "-c", "64", "--reasoning", "off", "--temp", "0"]
    code, out, err = run(command, *words)
    assert code == (ExitCode.CUT_OFF if command == "call" else ExitCode.DONE)
    assert out
    assert "the tokens ran out" in err


def test_what_ran_out_of_tokens_is_shown(run: Run, model: str, tmp_path: Path):
    tools = write(tmp_path / "write.json", [WRITE])
    given = ["-m", model, "--tools", tools, "--tool-choice", "write", "--reasoning", "off"]
    for stream in ([], ["--stream"]):
        code, _, err = run("call", "hi", *given, "-n", "20", "--seed", "1", *stream)
        assert code == ExitCode.CUT_OFF
        assert "(the tokens ran out: raise --max-tokens, or the context with -c)" in err
        # The one where no ending of the call was known, the other where one was.
        assert "(cut call, not delivered) '" in err or "(truncated call) write: its" in err


def test_a_stream_shows_what_the_reply_says(run: Run, model: str, tools: str):
    given = ["-m", model, "--tools", tools, "--tool-choice", "required", "--seed", "1"]
    for reasoning in ("on", "off"):
        words = [*given, "--reasoning", reasoning, "--reasoning-budget", "9", "--no-parallel"]
        code, out, err = run("call", "hi", *words)
        assert code == 0
        assert re.fullmatch(r"((paint|ping)\(.*\)\n)+", out)
        assert err.startswith("(reasoning) ") == (reasoning == "on")
        assert run("call", "hi", *words, "--stream") == (0, out, err)


@pytest.mark.parametrize(
    ("options", "expression"),
    [
        (["--regex", r"\d{2}-\d{2}"], r"\d\d-\d\d"),
        (["--choice", "yes", "--choice", "no"], "yes|no"),
        (["--json-schema", ' {"type": "boolean"}'], "true|false"),
        (["--json-schema", "SCHEMA"], r"[12](\.0)?"),  # 1.0 is equal to 1
        (["--grammar", "LARK"], "(ab)+"),
        (["--grammar", "GBNF"], "(ab)+"),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_answers(
    run: Run, model: str, tmp_path: Path, options: list[str], expression: str, stream: bool
):
    files = {
        "SCHEMA": write(tmp_path / "s.json", {"enum": [1, 2]}),
        "LARK": write(tmp_path / "g.lark", 'start: "ab" start?'),
        "GBNF": write(tmp_path / "g.gbnf", 'root ::= "ab" root?'),
    }
    words = [files.get(word, word) for word in options]
    given = ["-m", model, "-n", "40", "--reasoning", "off", "--seed", "1"]
    if stream:
        words.append("--stream")
    code, out, err = run("call", "hi", *given, *words)
    assert (code, err) == (0, "")
    if "ran out" not in out:
        assert re.fullmatch(expression, out.strip())


def test_the_reasoning_budget(run: Run, model: str, monkeypatch: pytest.MonkeyPatch):
    given = ["-m", model, "--reasoning", "on", "--choice", "yes", "--seed", "1", "--json"]
    code, out, _ = run("call", "hi", *given, "--reasoning-budget", "5", "--reasoning-close", "So!")
    reply = json.loads(out)
    assert (code, reply["content"].strip(), reply["finish_reason"]) == (0, "yes", "stop")
    assert reply["reasoning_content"].rstrip().endswith("So!")
    monkeypatch.setenv("LLAMA_ARG_THINK_BUDGET", "3")
    reply = json.loads(run("call", "hi", *given)[1])
    assert 0 < reply["usage"]["reasoning_tokens"] <= 3
    given += ["--reasoning-budget", "-1", "-n", "20"]
    assert json.loads(run("call", "hi", *given)[1])["usage"]["reasoning_tokens"] > 3


def test_a_model_without_a_chat_template(run: Run, tools: str, tmp_path: Path):
    bare = str(write_model(tmp_path / "bare.gguf", with_markers(load_small(), MARKERS), None))
    given = ["call", "hi", "-m", bare, "-n", "100", "--seed", "1"]
    code, out, err = run(*given, "--tools", tools, "--tool-choice", "ping", "--no-parallel")
    assert (code, out, err.count("note: ")) == (0, "ping()\n", 1)
    assert "bare.gguf has no chat template: ChatML" in err
    assert "--chat-template-file" in err
    code, _, err = run(*given, "--reasoning", "on", "--reasoning-budget", "3")
    assert code in (ExitCode.DONE, ExitCode.CUT_OFF)
    assert err.count("note: ") == 3
    assert "no reasoning block: --reasoning is ignored" in err
    assert "no reasoning block: --reasoning-budget is ignored" in err


def test_what_is_only_checked_of_an_answer_is_a_note(run: Run, model: str):
    schema = json.dumps({"type": "string", "maxLength": 5, "not": {"pattern": "()\\1ba"}})
    given = ["-m", model, "-n", "40", "--reasoning", "off", "--json-schema", schema]
    code, _, err = run("call", "hi", *given)
    assert code == 0
    assert "note: the answer: checked after generation: not at the root" in err


def test_odd_but_fine(run: Run, model: str, tmp_path: Path):
    odd = [
        {"name": "type", "description": "x y " * 300},
        {"name": "😀", "description": "😀", "input_schema": None},
        {"name": "none", "inputSchema": {"properties": {"a": {"$ref": "#"}}}},
    ]
    path = write(tmp_path / "t.json", b"\xef\xbb\xbf" + json.dumps(odd).encode())
    kwargs = json.dumps({"markers": 1, "keep": 2, "self": 3, "enable_thinking": False})
    given = ["-m", model, "--tools", path, "--chat-template-kwargs", kwargs, "-c", "0", "--json"]
    for name in ("type", "😀"):
        code, out, _ = run("call", "", *given, "--tool-choice", name)
        assert code == 0
        (call,) = json.loads(out)["tool_calls"]
        assert (call["name"], call["arguments"], len(call["id"])) == (name, {}, 9)
    empty = write(tmp_path / "e.json", "[]")
    assert run("call", "hi", "-m", model, "--tools", empty, "-n", "3")[0] == ExitCode.CUT_OFF


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("-m no.gguf", "no.gguf cannot be read: No such file or directory. Check the path"),
        ("-m MODEL -hf a/b", "both -m and -hf name a model. Give one of them"),
        ("--hf-file a.gguf", "--hf-file needs a repository. Give it with -hf USER/REPO"),
        ("-hf model", "'model' does not name a model of the Hub. Write user/repo"),
        ("-m TEXT", "is not a GGUF file. Convert the model to GGUF"),
        ("-m CUT", "corrupted or incomplete. Download the file again"),
        (
            "-m MODEL --tools no.json",
            "--tools: No such file or directory: 'no.json'. Check the path",
        ),
        ("-m MODEL --tools TEXT", "text is not JSON: Expecting value"),
        ("-m MODEL --tools BYTES", "bytes is not UTF-8"),
        ("-m MODEL --tools DEEP", "deep is not JSON: maximum recursion depth"),
        ("-m MODEL --tools OBJECT", "tools must be a list, not dict (at /tools)"),
        ("-m MODEL --tools BAD", "tool 'bad': the schema allows no object (at /tools/0/function/"),
        (
            "-m MODEL --tools TOOLS --tool-choice x",
            "unknown tool 'x' (at /tool_choice). Offered: ping, paint",
        ),
        ("-m MODEL --tool-choice required", "a call is required, but no tool is offered"),
        ("-m MODEL --tools FOLDER", "Name a file in it"),
        ("-m MODEL -n 0", "-n is 0: a reply needs max_tokens of 1 or more"),
        ("-m MODEL --temp -1", "temperature is -1.0, must be from 0 to 1000"),
        ("-m MODEL --temp nan", "temperature is nan"),
        ("-m MODEL --top-p 2", "top_p is 2.0, must be from 0 to 1"),
        ("-m MODEL --seed -2", "seed is -2"),
        ("-m MODEL --presence-penalty 2.5", "presence_penalty is 2.5, must be from -2 to 2"),
        ("-m MODEL --frequency-penalty -3", "frequency_penalty is -3.0, must be from -2 to 2"),
        ("-m MODEL --repeat-penalty 0", "repeat_penalty is 0.0, must be from 0.001 to 1000"),
        ("-m MODEL --repeat-last-n -2", "penalty_last_n is -2, must be -1 or more"),
        (17 * "--stop x ", "there are 17 stop texts, the limit is 16 (at /stop)"),
        ("-m MODEL -c -1", "context_length is -1, must be 0 to"),
        (f"-m MODEL -c {10**30}", "context_length is 1000"),
        ("-m MODEL -c 4", "context length is 4 tokens. However, your messages"),
        ("-m MODEL -t -1", "threads is -1, must be 0 to 512"),
        ("-m MODEL -t 1000", "threads is 1000, must be 0 to 512"),
        ("-m MODEL --chat-template-kwargs {", "--chat-template-kwargs is not JSON: Expecting"),
        ("-m MODEL --chat-template-kwargs []", "--chat-template-kwargs must be a JSON object"),
        ('-m MODEL --chat-template-kwargs {"tools":1}', "may not set tools (at /chat_template_kw"),
        ("-m MODEL --chat-template-file no.jinja", "No such file or directory: 'no.jinja'"),
        ("-m MODEL --chat-template-file RAISES", "m.gguf, line 1: no!. The template refuses"),
        ("-m MODEL --reasoning-budget -2", "reasoning_budget is -2, must be 0 or more"),
        ("-m MODEL --reasoning on --reasoning-budget 0", "thinking is required, but its budget"),
        ("-m MODEL --json-schema {", "--json-schema is not JSON: Expecting"),
        ("-m MODEL --json-schema TOOLS", "is not a JSON Schema. Write"),
        ("-m MODEL --json-schema no.json", "--json-schema: No such file or directory: 'no.json'"),
        ("-m MODEL --grammar no.lark", "--grammar: No such file or directory: 'no.lark'"),
        ("-m MODEL --regex (a)\\1", "cannot be enforced (at /regex)"),
        ("-m MODEL --system \udc80", "the prompt has a lone surrogate"),
    ],
)
def test_errors_of_call(run: Run, model: str, tmp_path: Path, arguments: str, message: str):
    bare = write_model(tmp_path / "bare.gguf", load_small(), None, n_layer=1)
    files = {
        "MODEL": model,
        "FOLDER": str(tmp_path),
        "BARE": str(bare),
        "CUT": write(tmp_path / "cut", bare.read_bytes()[:-1000]),
        "TEXT": write(tmp_path / "text", "some text"),
        "BYTES": write(tmp_path / "bytes", b"\xff\xfe"),
        "DEEP": write(tmp_path / "deep", "[" * 100_000),
        "OBJECT": write(tmp_path / "object", {"tools": {}}),
        "BAD": write(tmp_path / "bad", [tool("bad", type="string")]),
        "TOOLS": write(tmp_path / "tools", [PING, PAINT]),
        "RAISES": write(tmp_path / "raises", "{{ raise_exception('no!') }}"),
    }
    words = [files.get(word, word) for word in arguments.split()]
    code, out, err = run("call", "hi", *words)
    is_file = arguments in ("-m no.gguf", "-m TEXT", "-m CUT")
    assert (code, out) == (ExitCode.MODEL if is_file else ExitCode.USAGE, "")
    assert err.startswith("constrained: error: ")
    assert message in err
    again, out, err = run("call", "hi", *words, "--json")
    assert again == code
    assert message in json.loads(out)["error"]
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        *("call", "call hi -c much", "call hi -fa maybe", "cal", "call --regex a --choice b x"),
        *("call hi --tols x", "models --nothing"),
    ],
)
def test_usage(run: Run, arguments: str):
    code, out, err = run(*arguments.split())
    assert (code, out) == (2, "")
    assert err.startswith("constrained: error: ")
    assert err.endswith("--help)\n")
    assert err.count("\n") == 1


def test_without_a_command_all_are_listed(run: Run):
    code, out, err = run()
    assert (code, out) == (2, "")
    assert err.startswith("usage: constrained ")
    assert "answer one message" in err


def test_the_versions(run: Run):
    code, out, err = run("--version")
    assert (code, err) == (0, "")
    assert re.fullmatch(r"constrained .+, llama-cpp-python [\d.]+, llguidance [\d.]+\n", out)


def test_help(run: Run):
    commands = ([], ["call"], ["chat"], ["check"], ["grammar"], ["schema"], ["formats"])
    for words in ([*command, "--help"] for command in commands):
        code, out, _ = run(*words)
        assert code == 0
        assert "usage: constrained" in out


def test_help_is_in_two_levels(run: Run):
    short, whole = (run("call", words)[1] for words in ("--help", "--help-all"))
    titles = re.findall(r"^advanced: \w+:$", whole, re.MULTILINE)
    assert len(titles) > 3
    for daily in ("--help-all", "--model", "--tools", "--temp"):
        assert daily in short
        assert daily in whole
    for detail in (*titles, "--batch-size", "--no-draft"):
        assert detail not in short
        assert detail in whole


def test_check(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    rows = [
        {"id": "é", "format": "hermes", "tools": [PING], "text": hermes_call("ping")},
        {"id": "\ud800", "format": "hermes", "text": "\ud800"},
    ]
    data = b"\n".join([json.dumps(rows[0]).encode(), b"", b"\xff", json.dumps(rows[1]).encode()])
    code, out, err = run("check", write(tmp_path / "rows.jsonl", data))
    assert code == ExitCode.USAGE
    assert err.startswith("constrained: error: line 3 is not JSON")
    answers = [json.loads(line) for line in out.splitlines()]
    assert [a["id"] for a in answers] == ["é", None, "\ud800"]
    assert [a["valid"] for a in answers] == [True, False, False]
    assert answers[1]["error"].startswith("line 3 is not JSON")
    for words in (["check"], ["check", "-"], ["check", "--json"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert run(*words) == (code, out, err)


def test_check_of_files_that_cannot_be_read(run: Run, tmp_path: Path):
    for path in (tmp_path / "none", tmp_path):
        code, out, err = run("check", str(path))
        assert (code, out) == (2, "")
        assert str(path) in err


def test_a_real_process(model: str, tools: str):
    def start(
        *words: str, given: bytes = b"", **options: Any
    ) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-m", "constrained", *words]
        return subprocess.run(command, cwd=ROOT, input=given, capture_output=True, **options)

    done = start(
        "call", "hi", "--reasoning", "off", "-m", model, "--tools", tools, "--tool-choice", "ping"
    )
    assert done.returncode == 0, done.stderr
    row = json.dumps({"id": "é", "format": "hermes", "text": "hi"}).encode()
    ascii_only = {"PYTHONIOENCODING": "ascii", "PYTHONPATH": str(ROOT)}
    done = start("check", given=row, env=ascii_only)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["id"] == "é"
    assert start("call", "hi", "-m", "none").returncode == ExitCode.MODEL


def test_a_reader_that_has_seen_enough():
    row = json.dumps({"format": "hermes", "text": "hi"})
    command = f"yes '{row}' | head -n 20000 | {sys.executable} -m constrained check | head -n 1"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True)
    assert done.stderr == ""
    assert json.loads(done.stdout)["content"] == "hi"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed(closed: str):
    command = f"{sys.executable} -m constrained models --color always {closed}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert ("demo" in done.stdout) == (closed in ("<&-", "2>&-"))


def test_what_comes_from_stdin(run: Run, model: str, tmp_path: Path, monkeypatch: Any):
    def give(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))

    listed = json.dumps({"tools": [PING, PAINT], "nextCursor": None})  # as MCP servers list them
    given = ["-m", model, "--tool-choice", "ping", "--reasoning", "off", "--no-parallel"]
    give(listed)
    assert run("call", "hi", *given, "--tools", "-") == (0, "ping()\n", "")
    tools = write(tmp_path / "tools.json", listed)
    give("Say \u00e9.\n")
    code, out, err = run("call", "-", *given, "--tools", tools, "--show-prompt")
    assert (code, out) == (0, "ping()\n")
    assert "Say \u00e9.<|im_end|>" in err
    code, out, err = run("call", "-", *given, "--tools", "-")
    assert (code, out) == (ExitCode.USAGE, "")
    assert "both the message and --tools" in err
    give(listed)
    code, out, err = run("schema", "--tools", "-", "--json")
    assert (code, [json.loads(line)["name"] for line in out.splitlines()]) == (0, ["ping", "paint"])


def test_a_timeout_has_a_code_of_its_own(run: Run, model: str):
    code, out, err = run("call", "hi", "-m", model, "-n", "500", "--timeout", "0.0001")
    assert (code, out) == (ExitCode.TIMEOUT, "")
    assert "Allow more time" in err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands_options_and_paths(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--print-completion", shell])
    script = capsys.readouterr().out
    assert ended.value.code == 0
    for word in ("serve", "models", "pull", "chat-template-file"):
        assert word in script
    if shell == "bash":
        assert "_shtab_compgen_files" in script
        assert "_shtab_compgen_dirs" in script
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_no_command_prints_the_help(run: Run) -> None:
    code, out, err = run()
    assert (code, out) == (ExitCode.USAGE, "")
    assert "answer one message, with tools" in err


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("dmeo", "Did you mean demo?"),
        ("Qwen/Qwen3-0.6B-GGUF:Q8_0", "-hf Qwen/Qwen3-0.6B-GGUF:Q8_0"),
        ("./none.gguf", "Check the path"),
    ],
)
def test_a_model_that_is_not_there_names_what_may_be_meant(
    run: Run, source: str, said: str
) -> None:
    code, _, err = run("call", "hi", "-m", source)
    assert code == ExitCode.MODEL
    assert said in err


def test_a_mistake_in_a_grammar_is_one_of_the_request(run: Run) -> None:
    code, _, err = run("call", "hi", "--regex", "(")
    assert code == ExitCode.USAGE
    assert "the group is not closed" in err
