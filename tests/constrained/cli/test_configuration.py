"""Options from constrained.toml: what goes before what, and what is said of mistakes."""

import json
from pathlib import Path
from typing import Any

import pytest

from constrained.cli.commands import COMMANDS
from constrained.cli.configuration import NOT_IN_FILES, find_option, list_commands
from constrained.cli.parser import make_parser
from constrained.cli.terminal.exit_codes import ExitCode
from tests.command_line import Run, write


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, in which there are no files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    return tmp_path


def shown(run: Run, *words: str) -> dict[str, tuple[Any, str]]:
    """Option -> its value and where that comes from."""
    code, out, err = run(*words, "--json", "--show-config")
    assert (code, err) == (0, "")
    return {row["option"]: (row["value"], row["source"]) for row in json.loads(out)}


def test_what_goes_before_what(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch):
    assert shown(run, "call", "hi")["ctx-size"] == (None, "default")
    write(folder / "constrained.toml", "ctx-size = 1\n")
    assert shown(run, "call", "hi")["ctx-size"] == (1, "constrained.toml, [default]")
    write(folder / "constrained.toml", "[default]\nctx-size = 1\n[call]\nctx-size = 2")
    assert shown(run, "call", "hi")["ctx-size"] == (2, "constrained.toml, [call]")
    assert shown(run, "chat")["ctx-size"][0] == 1
    monkeypatch.setenv("LLAMA_ARG_CTX_SIZE", "3")
    assert shown(run, "call", "hi")["ctx-size"] == (3, "LLAMA_ARG_CTX_SIZE")
    assert shown(run, "call", "hi", "-c", "4")["ctx-size"] == (4, "command line")


def test_which_file_is_read(run: Run, folder: Path):
    home = folder / "home" / "constrained"
    home.mkdir(parents=True)
    write(home / "config.toml", "seed = 1")
    assert shown(run, "call", "hi")["seed"] == (1, f"{home}/config.toml, [default]")
    write(folder / "constrained.toml", "seed = 2")
    assert shown(run, "call", "hi")["seed"][0] == 2
    other = write(folder / "other.toml", "seed = 3")
    assert shown(run, "call", "hi", "--config", other)["seed"][0] == 3
    assert shown(run, "--config", other, "call", "hi")["seed"][0] == 3
    assert shown(run, "call", "hi", "--config", "/dev/null")["seed"][0] is None


def test_all_kinds_of_values(run: Run, folder: Path):
    text = """
        temp = 1
        flash-attn = true
        gpu-layers = 7
        max-tokens = -1
        stop = ["a", "b"]
        offline = true
        chat-template-kwargs = {enable_thinking = true}
        [models.pull]
        hf-token = "secret"
        [call]
        offline = false
    """
    write(folder / "constrained.toml", text)
    found = {name: value for name, (value, _) in shown(run, "chat").items()}
    assert (found["temp"], found["flash-attn"], found["gpu-layers"]) == (1.0, True, 7)
    assert (found["max-tokens"], found["stop"], found["offline"]) == (None, ["a", "b"], True)
    assert json.loads(found["chat-template-kwargs"]) == {"enable_thinking": True}
    assert shown(run, "call", "hi")["offline"] == (False, "constrained.toml, [call]")
    assert shown(run, "call", "hi", "--stop", "c")["stop"] == (["c"], "command line")
    assert shown(run, "models", "pull", "a/b")["hf-token"][0] == "(not shown)"


def test_one_model_alone_is_named(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch):
    write(folder / "constrained.toml", 'hf-repo = "a/b"\nhf-file = "c.gguf"')
    names = ("model", "hf-repo", "hf-file")

    def models(*words: str) -> list[Any]:
        found = shown(run, "call", "hi", *words)
        return [found[name][0] for name in names]

    assert models() == [None, "a/b", "c.gguf"]
    assert models("-m", "d.gguf") == ["d.gguf", None, None]
    monkeypatch.setenv("LLAMA_ARG_MODEL", "e.gguf")
    assert models() == ["e.gguf", None, None]
    assert models("-hf", "f/g") == [None, "f/g", None]


def test_options_that_exclude_each_other(run: Run, folder: Path):
    write(folder / "constrained.toml", 'regex = "a"\n[call]\nchoice = ["yes"]')
    found = shown(run, "call", "hi")
    assert (found["regex"][0], found["choice"][0]) == (None, ["yes"])
    assert shown(run, "chat")["regex"][0] == "a"
    found = shown(run, "call", "hi", "--regex", "b")
    assert (found["regex"][0], found["choice"][0]) == ("b", None)
    write(folder / "constrained.toml", '[call]\nregex = "a"\nchoice = ["yes"]')
    code, _, err = run("call", "hi")
    assert (code, "[call]" in err, "not allowed with" in err) == (2, True, True)


def test_what_a_command_needs_may_be_in_the_file(run: Run, folder: Path):
    write(folder / "tools.json", [{"name": "ping"}])
    words = ["grammar", "--format", "hermes"]
    code, _, err = run(*words)
    assert (code, "required: --tools" in err) == (2, True)
    write(folder / "constrained.toml", '[grammar]\ntools = "tools.json"')
    code, out, _ = run(*words)
    assert (code, "ping" in out) == (0, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ctx_size = 1", "constrained.toml: there is no option 'ctx_size'. Did you mean ctx-size?"),
        ("[call]\nports = 1", "constrained.toml, [call]: there is no option 'ports' for call"),
        ("[sevre]\na = 1", "constrained.toml: there is no command 'sevre'"),
        ("call = 1", "constrained.toml: call is a command, not an option. Write [call]"),
        ('ctx-size = "1"', 'constrained.toml, [default]: ctx-size is "1", not a whole number'),
        ("ctx-size = 1.5", "ctx-size is 1.5, not a whole number"),
        ("ctx-size = true", "ctx-size is true, not a whole number"),
        ('temp = "hot"', 'temp is "hot", not a number'),
        ("no-draft = 1", "no-draft is 1, not true or false"),
        ("stop = [1]", "stop is [1], not a list of strings"),
        ("model = 2026-01-01", 'model is "2026-01-01", not a string in quotes'),
        ('flash-attn = "maybe"', "[default]: -fa/--flash-attn: there is no 'maybe'"),
        ('gpu-layers = "many"', "[default]: gpu-layers is 'many', not a number, auto or all"),
        ("seed = 1\n[default]\nseed = 2", "seed is set twice, at the top and in [default]"),
        ("seed = " + "[" * 100_000, "constrained.toml is nested too deeply"),
        ("seed = \n", "constrained.toml is not TOML: Invalid value (at line 1"),
        ('config = "x"', "there is no option 'config'"),
    ],
)
def test_mistakes(run: Run, folder: Path, text: str, message: str):
    write(folder / "constrained.toml", text)
    code, out, err = run("call", "hi")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_a_file_that_is_not_there(run: Run):
    code, _, err = run("call", "hi", "--config", "no.toml")
    assert (code, "no.toml cannot be read: No such file or directory" in err) == (2, True)


def test_every_option_can_be_in_a_file():
    """Whatever argparse knows, by each of its long names."""
    found = 0
    for command in list_commands(make_parser(COMMANDS)):
        for action in command.list_actions():
            for option in action.option_strings:
                if option.startswith("--") and action.dest not in NOT_IN_FILES:
                    found_action = find_option(command, option[2:], place="")
                    assert option in found_action.option_strings
                    found += 1
    assert found > 100


@pytest.mark.parametrize(
    ("command", "line"),
    [
        ("serve", 'host = "0.0.0.0"'),
        ("serve", "log-prompts = true"),
        ("serve", 'cors-origin = ["*"]'),
        ("serve", 'model = "vllm://h:1"'),
        ("serve", 'backend = "vllm://h:1"'),
        ("chat", 'mcp = ["program"]'),
    ],
)
def test_what_opens_a_server_is_not_taken_from_the_folder(
    run: Run, folder: Path, command: str, line: str
) -> None:
    write(folder / "constrained.toml", f"[{command}]\n{line}")
    code, _, err = run(command, "--show-config")
    assert code == ExitCode.USAGE
    assert "cannot be set by a file in the current folder" in err
    code, _, _ = run(command, "--show-config", "--config", "constrained.toml")
    assert code == ExitCode.DONE


def test_a_file_need_not_have_what_the_command_line_needs(run: Run, folder: Path) -> None:
    write(folder / "constrained.toml", "seed = 7\n[suite]\nexamples = 5")
    found = shown(run, "suite", "--export")
    assert (found["examples"][0], found["seed"][0], found["export"][0]) == (5, 7, True)


def test_what_is_imported_is_not_taken_from_the_folder(run: Run, folder: Path) -> None:
    write(folder / "constrained.toml", '[suite]\npackage = "packages"')
    code, _, err = run("suite", "--peer", "vllm:hermes", "--show-config")
    assert code == ExitCode.USAGE
    assert "package cannot be set by a file in the current folder" in err


def test_a_program_is_not_taken_from_the_folder(run: Run, folder: Path) -> None:
    write(folder / "constrained.toml", '[chat]\ntools = "program.py"')
    code, _, err = run("chat", "--show-config")
    assert code == ExitCode.USAGE
    assert "tools cannot be set by a file in the current folder" in err
