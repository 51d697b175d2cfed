"""The options of `constrained serve`: each has its effect, and llama-server's start lines work."""

import argparse
import re
from datetime import datetime

import pytest

from constrained.cli import options as shared
from constrained.cli.configuration import list_commands
from constrained.cli.declared import complete, rank_group
from constrained.cli.parser import make_parser
from constrained.errors import RequestError
from constrained.prompt.job import Job
from server.commands import SERVE
from server.commands.serve_options import WITHOUT_EFFECT, read_settings
from server.settings import MIB, ReasoningField, Settings
from server.turns.reasoning import Effort, ReasoningRequest
from server.turns.request_completion import complete_request
from server.turns.service import Service
from server.turns.turn_request import GenerationOptions, TurnRequest
from tests.scripted_model import OPENED, scripted
from tests.server.commands.serve_arguments import read
from tests.server.running_server import running

HELLO = [{"role": "user", "content": "Hello"}]
SETTINGS = {
    "api_key": ("--api-key one", "api_keys", ("one",)),
    "reasoning_field": ("--reasoning-field both", "reasoning_field", ReasoningField.BOTH),
    "reasoning_format": ("--reasoning-format none", "reasoning_field", ReasoningField.INLINE),
    "reasoning_budget": ("--reasoning-budget 5", "reasoning_budget", 5),
    "reasoning": ("--reasoning off", "reasoning", False),
    "timeout": ("--timeout 5", "timeout", 5),
    "drain": ("--drain 5", "drain_seconds", 5),
    "idle_timeout": ("--idle-timeout 5", "idle_seconds", 5),
    "cors_origin": ("--cors-origin http://a", "cors_origins", ("http://a",)),
    "allowed_hosts": ("--allowed-hosts *", "allowed_hosts", None),
    "keep_volatile": ("--keep-volatile", "keep_volatile", True),
    "date": ("--date 2026-01-31", "date", datetime(2026, 1, 31)),
    "show_grammar": ("--show-grammar", "show_grammar", True),
    "log_prompts": ("--log-prompts", "log_prompts", True),
    "otel": ("--otel", "otel", True),
    "share_cache": ("--share-cache", "share_cache", True),
    "lenient_tools": ("--lenient-tools", "lenient_tools", True),
    "envelopes": ("--envelopes off", "envelopes", "off"),
    "max_body": ("--max-body 5", "max_body", 5 * MIB),
    "max_waiting": ("--max-waiting 5", "max_waiting", 5),
    "max_values": ("--max-values 5", "max_values", 5),
    "max_tools": ("--max-tools 5", "max_tools", 5),
    "max_choices": ("--max-choices 5", "max_choices", 5),
    "max_repetition": ("--max-repetition 5", "max_repetition", 5),
    "max_repetition_limit": ("--max-repetition-limit 5", "max_repetition_limit", 5),
    "max_schema": ("--max-schema 5", "max_schema", 5 << 10),
    "max_template_kwargs": ("--max-template-kwargs 5", "max_template_kwargs", 5 << 10),
    "max_echoed": ("--max-echoed 5", "max_echoed", 5 << 10),
    "max_tokens": ("--n-predict 5", "max_tokens", 5),
    "stop": ("--stop x", "stop", ("x",)),
    "chat_template_kwargs": ('--chat-template-kwargs {"a":1}', "template_kwargs", {"a": 1}),
}
"""Options that are settings of the server: the command line, the setting, its value."""
OF_THE_PROCESS = frozenset(
    "declared run json host port log_level log_format verbose ignored api_key_file alias "
    "models_dir models_preset models_max models_memory sleep_idle_seconds cache_memory "
    "store".split()
)
LLAMA_SERVER_LINES = (
    "--jinja -fa -c 512 -ngl 99 --host 127.0.0.1 --port 0",
    "-c 512 -np 2 -cb --metrics --slots --no-webui --no-warmup -a mine --temperature 0.2",
    "--flash-attn on --n-gpu-layers all --n-predict -1 --reasoning-format deepseek -v",
    "--reasoning-budget 0 --cache-type-k q8_0 -t 2 -b 64 -ub 64 --top-k 20 --mlock",
)


@pytest.mark.parametrize("option", SETTINGS)
def test_each_option_has_its_setting(option: str) -> None:
    line, name, value = SETTINGS[option]
    options = read(*line.split())
    assert getattr(options, option) != getattr(read(), option)
    assert getattr(read_settings(options), name) == value
    assert getattr(read_settings(read()), name) != value


def test_no_option_is_forgotten() -> None:
    """Each is in the table above, is the process's own, or is shared with `call` and tested there
    (the model, the engine, and how tokens are sampled)."""
    of_model = argparse.ArgumentParser()
    shared.add_model_options(of_model)
    shared.add_tool_format(of_model)
    shared.add_engine_options(of_model)
    shared.add_sampling_options(of_model)
    known = {*SETTINGS, *OF_THE_PROCESS, *vars(of_model.parse_args([]))}
    assert set(vars(read())) <= known


def test_settings_stand_in_for_what_requests_do_not_say() -> None:
    settings = Settings(max_tokens=20, stop=("END",), reasoning=False)
    with running(scripted("Well, END and more.", turn=OPENED), settings) as client:
        body = client.post("/v1/chat/completions", json={"messages": HELLO}).json()
        assert body["choices"][0]["message"]["content"] == "Well, "
    with running(scripted("On and on and on and on.", turn=OPENED), settings) as client:
        body = client.post("/v1/chat/completions", json={"messages": HELLO}).json()
        assert body["usage"]["completion_tokens"] == 20
        assert body["choices"][0]["finish_reason"] == "length"


def test_a_request_counts_more_than_the_settings() -> None:
    settings = Settings(
        max_tokens=7,
        stop=("END",),
        template_kwargs={"a": 1, "b": 2},
        reasoning=False,
        reasoning_budget=9,
    )
    service = Service(scripted("x"), settings)
    try:
        job = Job(HELLO, template_kwargs={"b": 3})
        done = complete_request(service, TurnRequest(job, reasoning=ReasoningRequest(Effort.LOW)))
        assert done.job.template_kwargs["a"] == 1
        assert done.job.template_kwargs["b"] == 3
        assert done.plan.budget == 9
        assert (done.generation.max_tokens, done.generation.stop) == (7, ("END",))
        given = TurnRequest(job, GenerationOptions(max_tokens=3, stop=("x",)))
        done = complete_request(service, given)
        assert (done.generation.max_tokens, done.generation.stop) == (3, ("x", "END"))
        assert done.plan.think == "forbidden"
    finally:
        service.model.close()


def test_a_number_below_its_minimum_is_an_error_with_the_name_of_the_option(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for option, wrong in (("--idle-timeout", "0"), ("--drain", "nan"), ("--max-body", "-1")):
        with pytest.raises(SystemExit):
            read(f"{option}={wrong}")
        assert re.search(f"{option}: must be . or more, is {wrong}", capsys.readouterr().err)
    for option, wrong in (("--idle-timeout", "inf"), ("--drain", "1e12")):
        with pytest.raises(SystemExit):
            read(f"{option}={wrong}")
        assert f"{option}: must be 1,000,000,000 or less, is {wrong}" in capsys.readouterr().err


def test_minus_one_is_any_repetition() -> None:
    settings = read_settings(read("--max-repetition", "-1", "--max-repetition-limit", "-1"))
    assert (settings.max_repetition, settings.max_repetition_limit) == (None, None)
    assert settings.default_repetition is None
    for name in ("--max-repetition", "--max-repetition-limit"):
        for wrong in ("0", "-2"):
            with pytest.raises(RequestError, match="must be 1 or more"):
                read_settings(read(name, wrong))


@pytest.mark.parametrize("line", LLAMA_SERVER_LINES)
def test_start_lines_of_llama_server_are_taken(line: str) -> None:
    options = read(*line.split())
    complete(options)
    read_settings(options)
    shared.read_engine_options(options)


def test_what_has_no_effect_is_noted() -> None:
    assert read("--jinja", "-c", "9", "--no-webui").ignored == ["--jinja", "--no-webui"]
    assert read("-fa", "-c", "9").flash_attn == "on"
    assert read("-fa", "off").flash_attn == "off"


VARIABLES = {
    "HOST": ("host", "0.0.0.0", "0.0.0.0"),
    "PORT": ("port", "81", 81),
    "ALIAS": ("alias", "mine", "mine"),
    "MODELS_DIR": ("models_dir", "here", "here"),
    "MODELS_PRESET": ("models_preset", "a.ini", "a.ini"),
    "MODELS_MAX": ("models_max", "2", 2),
    "SLEEP_IDLE_SECONDS": ("sleep_idle_seconds", "1.5", 1.5),
}
"""The end of a variable, its option, a text, and the value that this means."""


@pytest.mark.parametrize("variable", VARIABLES)
def test_the_environment_stands_in_for_options(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    option, text, value = VARIABLES[variable]
    plain, given, asked = read(), read(), read(f"--{option.replace('_', '-')}", "7")
    complete(plain)
    monkeypatch.setenv(f"LLAMA_ARG_{variable}", text)
    complete(given)
    complete(asked)
    assert getattr(given, option) == value != getattr(plain, option)
    assert getattr(asked, option) in (7, "7")


def test_no_variable_is_forgotten() -> None:
    of_model = argparse.ArgumentParser()
    shared.add_model_options(of_model)
    shared.add_reasoning_budget(of_model)
    shared.add_engine_options(of_model)
    own = read().declared.keys() - of_model.parse_args([]).declared.keys()
    assert own == {option for option, *_ in VARIABLES.values()} | {"api_key"}


def test_the_help_of_every_day_is_short() -> None:
    parser = make_parser([SERVE])
    [command] = list_commands(parser)
    groups = {group.title: group._group_actions for group in command.parser._action_groups}
    daily = [action for title in groups if not rank_group(title) for action in groups[title]]
    assert 20 < len(daily) - len(WITHOUT_EFFECT) <= 35
    assert {rank_group(title) for title in groups} == {0, 1, 2}
