"""Each option of `call` and `chat`, and each LLAMA_ARG_* variable, has its effect on what the
library is asked for: how the model is loaded, which job is compiled, how the turn is generated."""

import argparse
import io
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from constrained.cli.commands import call, chat
from constrained.engine.options import Lora
from constrained.model.compile.compiled_turn import CompiledTurn
from constrained.prompt.job import Job, Recall
from grammars.turn import ChoiceAnswer, GrammarAnswer, JsonAnswer, KeyOrder, RegexAnswer, Think
from tests.command_line import Run, write
from tests.scripted_model import scripted
from tests.templates import PAINT, PING

SYSTEM = {"role": "system", "content": "Be brief."}
PLAIN_TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"

LOADED: dict[str, tuple[str, str, Any]] = {
    "model": ("-m m.gguf", "source", "m.gguf"),
    "tokenizer": ("-m vllm://127.0.0.1:1 --tokenizer v.gguf", "tokenizer", "v.gguf"),
    "backend_key": ("-m vllm://127.0.0.1:1 --backend-key k", "api_key", "k"),
    "backend_timeout": ("-m vllm://127.0.0.1:1 --backend-timeout 7", "engine_timeout", 7.0),
    "chat_template_file": ("--chat-template-file TEMPLATE", "chat_template", PLAIN_TEMPLATE),
    "tool_format": ("--tool-format hermes", "tool_format", "hermes"),
    "deterministic": ("--deterministic", "deterministic", True),
    "cache_ram": ("-cram 5", "cache_ram", 5),
    "cache_dir": ("--cache-dir there", "cache_dir", "there"),
    "no_draft": ("--no-draft", "draft", False),
    "ctx_size": ("-c 512", "context_length", 512),
    "parallel": ("-np 3", "sequences", 3),
    "threads": ("-t 3", "threads", 3),
    "threads_batch": ("-tb 3", "threads_batch", 3),
    "batch_size": ("-b 64", "batch_size", 64),
    "ubatch_size": ("-ub 64", "ubatch_size", 64),
    "flash_attn": ("-fa off", "flash_attention", False),
    "cache_type_k": ("-ctk q8_0", "cache_type_k", "q8_0"),
    "cache_type_v": ("-ctv q8_0", "cache_type_v", "q8_0"),
    "gpu_layers": ("-ngl 7", "gpu_layers", 7),
    "split_mode": ("-sm none", "split_mode", "none"),
    "main_gpu": ("-mg 1", "main_gpu", 1),
    "tensor_split": ("-ts 3,1", "tensor_split", (3.0, 1.0)),
    "no_kv_offload": ("-nkvo", "kv_offload", False),
    "mlock": ("--mlock", "mlock", True),
    "no_mmap": ("--no-mmap", "mmap", False),
    "lora": (
        "--lora a.gguf --lora b.gguf:0.5",
        "lora",
        (Lora(Path("a.gguf")), Lora(Path("b.gguf"), 0.5)),
    ),
}
"""Option: the command line, the argument of `load`, its value."""
FETCHED: dict[str, tuple[str, str, Any]] = {
    "hf_repo": ("-hf a/b:Q8_0", "spec", "a/b:Q8_0"),
    "hf_file": ("-hf a/b --hf-file c.gguf", "spec", "a/b:c.gguf"),
    "hf_token": ("-hf a/b --hf-token secret", "token", "secret"),
    "offline": ("-hf a/b --offline", "offline", True),
}
"""The same for what is fetched of the Hub."""
ASKED: dict[str, tuple[str, str, Any]] = {
    "tool_choice": ("--tools TOOLS --tool-choice required", "tool_choice", "required"),
    "no_parallel": ("--no-parallel", "parallel", False),
    "max_calls": ("--max-calls 2", "max_calls", 2),
    "max_repetition": ("--max-repetition 9", "max_repetition", 9),
    "envelopes": ("--envelopes native", "envelopes", "native"),
    "require_nonempty": ("--require-nonempty", "require_nonempty", True),
    "key_order": ("--key-order schema", "key_order", KeyOrder.SCHEMA),
    "reasoning": ("--reasoning on", "think", Think.REQUIRED),
    "chat_template_kwargs": ('--chat-template-kwargs {"a":1}', "template_kwargs", {"a": 1}),
    "json_schema": ('-j {"type":"null"}', "answer", JsonAnswer),
    "regex": ("--regex a+", "answer", RegexAnswer("a+")),
    "choice": ("--choice yes --choice no", "answer", ChoiceAnswer(("yes", "no"))),
    "grammar": ("--grammar LARK", "answer", GrammarAnswer),
    "reasoning_budget": ("--reasoning-budget 5", "reasoning_budget", 5),
    "reasoning_close": ("--reasoning-close So.", "reasoning_close", "So."),
    "recall": ("--recall drop", "recall", Recall.DROP),
    "no_thinking_tags": ("--no-thinking-tags", "thinking_tags", False),
    "tools": ("--tools TOOLS", "tools", [PING, PAINT]),
}
"""Option: the command line, the field of the job, its value or type."""
GENERATED: dict[str, tuple[str, str, Any]] = {
    "max_tokens": ("-n 7", "max_tokens", 7),
    "stop": ("--stop END", "stop", ["END"]),
}
"""Option: the command line, the option of the turn, its value."""
SAMPLED: dict[str, tuple[str, str, Any]] = {
    "seed": ("--seed 5", "seed", 5),
    "temp": ("--temp 0.5", "temperature", 0.5),
    "top_k": ("--top-k 5", "top_k", 5),
    "top_p": ("--top-p 0.5", "top_p", 0.5),
    "min_p": ("--min-p 0.5", "min_p", 0.5),
    "repeat_penalty": ("--repeat-penalty 1.5", "repeat_penalty", 1.5),
    "repeat_last_n": ("--repeat-last-n 5", "penalty_last_n", 5),
    "presence_penalty": ("--presence-penalty 0.5", "presence_penalty", 0.5),
    "frequency_penalty": ("--frequency-penalty 0.5", "frequency_penalty", 0.5),
}
"""Option: the command line, the field of the sampling, its value."""
OF_CALL = frozenset({"message", "json", "stream", "show_prompt", "timeout"})
"""Those of `call` alone, which the tests of the command line see."""
VARIABLES = {
    "MODEL": "m.gguf",
    "HF_REPO": "a/b:Q8_0",
    "HF_FILE": "c.gguf",
    "OFFLINE": "1",
    "THINK_BUDGET": "5",
    "CHAT_TEMPLATE_FILE": "TEMPLATE",
    "CTX_SIZE": "512",
    "N_PARALLEL": "3",
    "THREADS": "3",
    "BATCH": "64",
    "UBATCH": "64",
    "FLASH_ATTN": "off",
    "CACHE_TYPE_K": "q8_0",
    "CACHE_TYPE_V": "q8_0",
    "N_GPU_LAYERS": "7",
    "SPLIT_MODE": "none",
    "MAIN_GPU": "1",
    "TENSOR_SPLIT": "3,1",
    "NO_KV_OFFLOAD": "1",
    "MLOCK": "1",
    "NO_MMAP": "1",
    "CACHE_RAM": "5",
}
"""Variable: what it is set to, to have the effect of its option's row."""
OF_MCP = {"mcp", "mcp_config", "mcp_timeout", "yes"}
"""Options with tests of their own: test_mcp_commands."""
OF_CHOICE = {"min_confidence", "unsure", "search_tools"}
"""Options with tests of their own: test_chosen_turns."""
KEYS = {"HF_TOKEN", "CONSTRAINED_BACKEND_KEY"}
TABLES = (LOADED, FETCHED, ASKED, GENERATED, SAMPLED)
ROWS = {option: row for table in TABLES for option, row in table.items()}


class Seen:
    """What a command has asked the library for, by name: the arguments of `load` and `fetch`, the
    fields of the job and of the sampling, the options of the turn."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.values: dict[str, Any] = {}
        self.messages: Sequence[Any] = ()
        model = scripted("Well.")
        compile_job, complete, stream = model.compile, model.complete, model.stream_turn

        def fetch(spec: str, **options: Any) -> Path:
            self.values |= {"spec": spec, **options}
            return Path("fetched.gguf")

        monkeypatch.setattr("constrained.cli.options.find_source", Path)

        def load(source: str | None = None, **options: Any) -> Any:
            self.values |= {"source": source, **options}
            self.values["tool_format"] = getattr(options["tool_format"], "name", None)
            return model

        def compile_noted(job: Job) -> CompiledTurn:
            self.values |= vars(job)
            self.messages = job.messages
            return compile_job(Job(job.messages, tools=job.tools))

        def note(options: dict[str, Any]) -> dict[str, Any]:
            self.values |= options
            self.values |= vars(options["sampling"])
            return {"max_tokens": 20}

        monkeypatch.setattr("constrained.model_files.hub.fetch", fetch)
        monkeypatch.setattr("constrained.agent.loading.load", load)
        monkeypatch.setattr(model, "compile", compile_noted)
        monkeypatch.setattr(model, "complete", lambda turns, **o: complete(turns, **note(o)))
        monkeypatch.setattr(model, "stream_turn", lambda turn, **o: stream(turn, **note(o)))


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    return {
        "TOOLS": write(tmp_path / "tools.json", [PING, PAINT]),
        "TEMPLATE": write(tmp_path / "plain.jinja", PLAIN_TEMPLATE),
        "LARK": write(tmp_path / "g.lark", 'start: "a"'),
    }


def ask(
    run: Run, monkeypatch: pytest.MonkeyPatch, command: str, words: Sequence[str]
) -> dict[str, Any]:
    """What the command asks for."""
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"hi\n")))
        seen = Seen(patched)
        message = ["hi"] if command == "call" else []
        code, _, err = run(command, *message, *words)
        assert code == 0, err
        assert seen.messages[-1] == {"role": "user", "content": "hi"}
        return seen.values


@pytest.mark.parametrize("command", ["call", "chat"])
@pytest.mark.parametrize("option", ROWS)
def test_each_option_has_its_effect(
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    files: dict[str, str],
    command: str,
    option: str,
) -> None:
    line, name, value = ROWS[option]
    words = [files.get(word, word) for word in line.split()]
    plain = ask(run, monkeypatch, command, [])
    found = ask(run, monkeypatch, command, words)[name]
    assert isinstance(found, value) if isinstance(value, type) else found == value
    assert plain.get(name) != found


def find_variables() -> dict[str, str]:
    """Variable -> its option."""
    parser = argparse.ArgumentParser()
    call.add(parser)
    declared = parser.parse_args(["hi"]).declared
    return {option.variable: name for name, option in declared.items()}


def test_no_option_is_forgotten() -> None:
    for command, own in (
        (call, {*OF_CALL, *OF_MCP, *OF_CHOICE, "system"}),
        (chat, {*OF_MCP, *OF_CHOICE, "json", "system"}),
    ):
        parser = argparse.ArgumentParser()
        command.add(parser)
        words = ["hi"] if command is call else []
        options = vars(parser.parse_args(words)).keys() - {"run", "declared"}
        assert options == ROWS.keys() | own


@pytest.mark.parametrize("command", ["call", "chat"])
def test_the_system_message(run: Run, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    assert ask(run, monkeypatch, command, ["--system", "Be brief."])["messages"][0] == SYSTEM


@pytest.mark.parametrize("variable", VARIABLES)
def test_each_variable_stands_in_for_its_option(
    run: Run, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], variable: str
) -> None:
    line, name, value = ROWS[find_variables()[f"LLAMA_ARG_{variable}"]]
    given = VARIABLES[variable]
    plain = ask(run, monkeypatch, "call", [])
    if variable in ("HF_FILE", "OFFLINE"):
        monkeypatch.setenv("LLAMA_ARG_HF_REPO", "a/b")
    monkeypatch.setenv(f"LLAMA_ARG_{variable}", files.get(given, given))
    found = ask(run, monkeypatch, "call", [])[name]
    assert found == value
    assert plain.get(name) != found
    # What the command line says goes before it.
    words = [files.get(word, word) for word in line.split()]
    assert ask(run, monkeypatch, "call", words)[name] == value


def test_no_variable_is_forgotten() -> None:
    named = {variable.removeprefix("LLAMA_ARG_") for variable in find_variables()}
    assert VARIABLES.keys() == named - KEYS


def test_replies_are_json_if_asked_for(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        Seen(patched)
        code, out, _ = run("call", "hi", "--json")
    assert (code, json.loads(out)["content"]) == (0, "Well.")
