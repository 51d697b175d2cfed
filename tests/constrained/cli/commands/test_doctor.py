"""`constrained doctor`: what it takes, what it prints, how it ends."""

import json
from pathlib import Path

import pytest

from constrained.cli.terminal.exit_codes import ExitCode
from tests.command_line import Run, write
from tests.templates import HERMES
from tests.unstable_templates import DATED, KEPT, LAST_QUERY

CONFIG = {
    "chat_template": KEPT,
    "bos_token": None,
    "eos_token": {"content": "<|im_end|>"},
    "added_tokens_decoder": {
        "1": {"content": "<|im_start|>", "special": True},
        "2": {"content": "<|im_end|>", "special": True},
    },
}


def test_a_template_that_is_well(run: Run, tmp_path: Path):
    code, out, err = run("doctor", write(tmp_path / "t.jinja", KEPT))
    assert (code, err) == (ExitCode.DONE, "")
    assert "template: Does the chat template write what it is given?" in out
    assert "calls are in the format hermes" in out
    assert "it writes system messages" not in out


def test_verbose_tells_what_is_well(run: Run, tmp_path: Path):
    _, out, _ = run("doctor", write(tmp_path / "t.jinja", KEPT), "-v")
    assert "it writes system messages" in out


def test_a_template_that_makes_the_cache_useless_is_a_warning_and_no_failure(
    run: Run, tmp_path: Path
):
    code, out, _ = run("doctor", write(tmp_path / "t.jinja", LAST_QUERY))
    assert code == ExitCode.DONE
    (line,) = (line for line in out.splitlines() if "reasoning kept:" in line)
    assert line.startswith("  warning  reasoning kept: at turn 2 the next prompt differs")
    assert "The template leaves out reasoning" in line


def test_a_failure_is_exit_code_1(run: Run, tmp_path: Path):
    code, out, _ = run("doctor", write(tmp_path / "t.jinja", "{{ nothing.at.all }}"))
    assert code == ExitCode.NEGATIVE
    assert "FAILURE" in out
    assert "cache:" not in out  # what cannot run is not walked through


def test_json_has_all_verdicts_on_one_line(run: Run, tmp_path: Path):
    code, out, _ = run("doctor", write(tmp_path / "t.jinja", DATED), "--json")
    told = json.loads(out)
    assert (code, told["level"]) == (ExitCode.DONE, "note")
    last = told["checks"][-1]["verdicts"][-1]
    assert last["facts"]["unit"] == "day"
    assert last["remedy"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({}, "special tokens: <|im_start|>, <|im_end|>"),
        ({"chat_template": None}, "there is no chat template"),
        (
            {"added_tokens_decoder": {"1": {"content": "<|im_start|>", "special": False}}},
            "<|im_start|> are added, but not as special tokens",
        ),
        (
            {"eos_token": "</s>", "added_tokens_decoder": {}},
            "the template writes <|im_start|>, <|im_end|>, which are not among the added tokens",
        ),
        (
            {
                "chat_template": [
                    {"name": "default", "template": "{{ messages[0].content }}"},
                    {"name": "tool_use", "template": KEPT},
                ]
            },
            "there are several templates: default, tool_use",
        ),
    ],
)
def test_a_tokenizer_config(run: Run, tmp_path: Path, change: dict, text: str):
    _, out, _ = run("doctor", write(tmp_path / "tokenizer_config.json", CONFIG | change))
    assert text in out


def test_the_template_beside_a_tokenizer_config(run: Run, tmp_path: Path):
    write(tmp_path / "chat_template.jinja", HERMES)
    path = write(tmp_path / "tokenizer_config.json", CONFIG | {"chat_template": None})
    code, out, _ = run("doctor", path)
    assert code == ExitCode.DONE
    assert "calls are in the format hermes" in out


def test_the_demo_model_by_its_name(run: Run):
    code, out, _ = run("doctor", "demo")
    assert code == ExitCode.DONE
    assert "one token each: <tool_call>" in out


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "no model or template is given"),
        (("missing.jinja",), "missing.jinja cannot be read"),
        (("FOLDER",), "cannot be read: Is a directory"),
        (("bytes.bin",), "is neither a GGUF file nor text"),
        (("list.json",), "is not a JSON object"),
        (("broken.json",), "is not JSON"),
        (("demo", "-hf", "a/b"), "name a model"),
    ],
)
def test_what_cannot_be_examined(
    run: Run, tmp_path: Path, arguments: tuple[str, ...], text: str, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "bytes.bin", b"\xff\xfe\xfd")
    write(tmp_path / "list.json", [])
    write(tmp_path / "broken.json", "{")
    (tmp_path / "FOLDER").mkdir()
    code, _, err = run("doctor", *arguments)
    assert code == ExitCode.USAGE
    assert text in err
