"""Templates that show the tools but write no calls: the format that the model was trained on."""

from pathlib import Path
from typing import Any

import pytest

from constrained.agent.loading import load
from constrained.engine.vocabulary.vocabulary import byte_vocabulary
from constrained.inspect.replay.check import check_rows
from constrained.model.compile.compiler import Compiler
from constrained.prompt.format_selection.selection import SelectedFormat, select_format
from constrained.prompt.job import Job
from constrained.prompt.template.chat_template import ChatTemplate
from examples.random_model import MARKERS as SMALL_MARKERS
from examples.random_model import load_small, with_markers, write_model
from grammars.errors import DetectError
from grammars.infer.detection import Origin
from grammars.infer.reasoning import probe
from grammars.infer.shown import find_shown
from grammars.parse.parser import parse
from grammars.wire.format import Marker
from grammars.wire.formats import FORMATS, HERMES, LFM2, SIGNS
from tests.command_line import Run, write
from tests.found_formats import read
from tests.real_templates import real_templates
from tests.templates import tool

MARKERS = ("<|tool_list_start|>", "<|tool_list_end|>", "<|tool_call_start|>", "<|tool_call_end|>")
SHOWS = """
{%- if tools %}{{ '<|im_start|>system\nTOOLS ' + tools | tojson + '<|im_end|>\n' }}{% endif -%}
{%- for m in messages -%}
{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif -%}
"""
MARKED = SHOWS.replace("TOOLS ", "<|tool_list_start|>")
IN_WORDS = SHOWS.replace("TOOLS ", "List of tools: ")
WEATHER = tool("get_weather", {"city": {"type": "string"}})
USER = {"role": "user", "content": "The weather?"}
CALL: dict[str, Any] = {"name": "get_weather", "arguments": {"city": "it's <|im_end|> Paris"}}
ASKED = {
    "role": "assistant",
    "content": "I look.",
    "tool_calls": [{"id": "call_1", "type": "function", "function": CALL}],
}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "Sunny."}


def select(source: str, special_tokens: tuple[str, ...] | None = None) -> SelectedFormat:
    return select_format(ChatTemplate(source), special_tokens=special_tokens)


def test_a_marker_around_the_tools_tells_of_the_format() -> None:
    for special_tokens in (None, MARKERS):
        selected = select(MARKED, special_tokens)
        assert (selected.format.name, selected.origin) == ("lfm2", Origin.SHOWN)
        assert "'<|tool_list_start|>' in its prompt" in selected.notice


@pytest.mark.parametrize("missing", ["<|tool_list_start|>", "<|tool_call_end|>"])
def test_the_vocabulary_has_to_have_the_markers(missing: str) -> None:
    selected = select(MARKED, tuple(marker for marker in MARKERS if marker != missing))
    assert selected.origin is Origin.GENERIC
    assert f"no special token {missing}, and the prompt shows no example" in selected.notice


def test_words_tell_of_the_format_only_beside_its_markers() -> None:
    assert select(IN_WORDS, MARKERS[2:]).format.name == "lfm2"
    unknown = select(IN_WORDS)
    assert unknown.origin is Origin.GENERIC
    assert "the special tokens of the model, which could confirm it" in unknown.notice
    assert "no special token <|tool_call_start|> or" in select(IN_WORDS, ()).notice


def test_without_a_sign_the_format_is_the_generic_one() -> None:
    selected = select(SHOWS, MARKERS)
    assert selected.origin is Origin.GENERIC
    assert "the prompt describes no known tool format" in selected.notice


def test_text_that_stands_there_without_tools_tells_nothing() -> None:
    assert select("<|tool_list_start|>" + MARKED, MARKERS).origin is Origin.GENERIC


def test_a_template_that_changes_calls_is_not_trusted() -> None:
    changed = MARKED.replace("m.content +", "m.content | replace('[', '(') +")
    selected = select(changed, MARKERS)
    assert selected.origin is Origin.GENERIC
    assert "changes calls of the tool format lfm2" in selected.notice


def test_a_prompt_that_tells_of_two_formats_tells_of_none() -> None:
    signs = {"lfm2": (Marker("<|tool_list_start|>"),), "hermes": (Marker("<|tool_list_start|>"),)}
    with pytest.raises(DetectError, match="more than one tool format: lfm2 and hermes"):
        read(find_shown(probe(ChatTemplate(MARKED).render), formats=(LFM2, HERMES), signs=signs))


def test_every_sign_is_of_a_format_and_has_text() -> None:
    assert set(SIGNS) <= {format.name for format in FORMATS}
    assert all(sign.text.strip() for signs in SIGNS.values() for sign in signs)


def test_calls_of_the_history_are_written_in_the_format() -> None:
    selected = select(MARKED, MARKERS)
    text = selected.template.render([USER, ASKED, RESULT], [WEATHER])
    assert "You can call these tools" not in text
    assert "<|im_start|>tool\nSunny.<|im_end|>" in text
    turn = text.partition("<|im_start|>assistant\n")[2].partition("<|im_end|>\n<|im_start|>")[0]
    read = parse(turn, selected.format)
    assert read.content == "I look."
    assert [call.arguments for call in read.calls] == [CALL["arguments"]]


def test_results_that_the_template_drops_are_written_as_the_users() -> None:
    drops = MARKED.replace("in messages", "in messages if m.role != 'tool'")
    text = select(drops, MARKERS).template.render([USER, ASKED, RESULT], [WEATHER])
    assert "<|im_start|>user\n<tool_response>\nSunny.\n</tool_response><|im_end|>" in text


def test_the_markers_of_the_history_are_tokens_and_those_of_data_are_not() -> None:
    vocabulary = byte_vocabulary((*MARKERS, "<|im_start|>", "<|im_end|>"))
    compiler = Compiler(vocabulary, ChatTemplate(MARKED))
    assert compiler.format.name == "lfm2"
    prompt = compiler.compile(Job([USER, ASKED, RESULT], tools=[WEATHER])).tokens
    names = [vocabulary.names.get(token) for token in prompt]
    for marker in ("<|tool_call_start|>", "<|tool_call_end|>"):
        assert names.count(marker) == 1
    assert names.count("<|im_end|>") == 4  # not that of the argument


def write_small_model(path: Path, markers: tuple[str, ...]) -> str:
    tokens = with_markers(load_small(), (*SMALL_MARKERS, *markers))
    return str(write_model(path, tokens, IN_WORDS, n_layer=1))


def test_the_vocabulary_of_a_file_confirms_the_format(tmp_path: Path, run: Run) -> None:
    path = write_small_model(tmp_path / "model.gguf", MARKERS)
    with load(path, threads=1) as model:
        assert model.compiler.format.name == "lfm2"
        assert "indicates the tool format lfm2" in model.notices[-1]
    code, out, err = run("formats", "detect", path)
    assert (code, err) == (0, "")
    assert out.startswith("lfm2: shown\n")


def test_a_file_without_the_markers_gets_the_generic_format(tmp_path: Path, run: Run) -> None:
    path = write_small_model(tmp_path / "model.gguf", MARKERS[:1])
    with load(path, threads=1) as model:
        assert model.compiler.format.name == "generic"
    code, out, err = run("formats", "detect", path)
    assert (code, err) == (0, "")
    assert out.startswith("generic: ")
    assert "no special token <|tool_call_start|>" in out


@pytest.mark.parametrize("source", [MARKED, IN_WORDS])
def test_a_format_that_the_user_confirms_is_not_explained(source: str) -> None:
    selected = select_format(ChatTemplate(source), LFM2)
    assert (selected.format.name, selected.origin) == ("lfm2", Origin.CHOSEN)
    assert "You can call these tools" not in selected.template.render([USER], [WEATHER])
    assert select_format(ChatTemplate(source), HERMES).format.name == "hermes"


@pytest.mark.parametrize("name", ["LFM2-8B-A1B", "LFM2.5-Instruct"])
def test_the_templates_of_lfm2(name: str) -> None:
    selected = select_format(real_templates()[name], special_tokens=MARKERS)
    assert (selected.format.name, selected.origin) == ("lfm2", Origin.SHOWN)
    text = selected.template.render([USER, ASKED, RESULT], [WEATHER])
    called = (
        "I look.<|tool_call_start|>[get_weather(city='it's <|im_end|> Paris')]<|tool_call_end|>"
    )
    assert called in text
    assert "Sunny." in text


def test_the_command_tells_what_the_prompt_shows(tmp_path: Path, run: Run) -> None:
    code, out, err = run("formats", "detect", write(tmp_path / "shown.jinja", MARKED))
    assert (code, err) == (0, "")
    assert out.startswith("lfm2: shown\n")
    assert "'<|tool_list_start|>' in its prompt indicates the tool format lfm2" in out
    code, out, err = run("formats", "detect", write(tmp_path / "words.jinja", IN_WORDS))
    assert (code, err) == (0, "")
    assert out.startswith("generic: ")
    assert "which could confirm it, are not known" in out


def test_recorded_turns_are_checked_in_the_format_that_is_shown() -> None:
    text = "<|tool_call_start|>[get_weather(city='Paris')]<|tool_call_end|><|im_end|>"
    (answer,) = check_rows([{"template": MARKED, "tools": [WEATHER], "text": text}])
    assert (answer["format"], answer["complete"], answer["valid"]) == ("lfm2", True, True)
