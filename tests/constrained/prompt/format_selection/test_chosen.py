"""A tool format that the user chooses: what is taught is what is enforced, or the start fails."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from constrained.engine.vocabulary.vocabulary import byte_vocabulary
from constrained.errors import RequestError
from constrained.model.compile.compiler import Compiler
from constrained.prompt.format_selection.generic import (
    CHATML,
    EXAMPLES,
    GenericTemplate,
    describe_several,
    write_example,
)
from constrained.prompt.format_selection.selection import read_tool_format, select_format
from constrained.prompt.format_selection.template_facts import find_facts
from constrained.prompt.job import Job
from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.tools.shapes import read_tools
from grammars.errors import FormatError
from grammars.infer.detection import Origin
from grammars.parse.parser import parse
from grammars.turn import Choice, Policy, State
from grammars.wire.format import Content, Format, find_named
from grammars.wire.format_text import dump_format
from grammars.wire.formats import FORMATS, GENERIC, HERMES, KIMI_K2, QWEN3_CODER
from tests.agreement.matching import Masked
from tests.command_line import Run, write
from tests.found_formats import read
from tests.real_templates import real_templates
from tests.templates import HERMES as HERMES_SOURCE
from tests.templates import PING, tool

PLAIN = ChatTemplate(CHATML, eos_token="<|im_end|>")
TOOL = tool("example_tool", {"text": {"type": "string"}, "count": {"type": "integer"}})
USER = {"role": "user", "content": "Hello"}
WITH_HEADERS = {f.name for f in FORMATS if f.contents != (Content(),) or f.tail}
TAUGHT = [f for f in FORMATS if f.name not in WITH_HEADERS]


def calls(*texts: str) -> dict[str, Any]:
    listed = [
        {"id": f"call_{i}", "type": "function"}
        | {"function": {"name": "example_tool", "arguments": {"text": text, "count": i}}}
        for i, text in enumerate(texts)
    ]
    return {"role": "assistant", "content": "", "tool_calls": listed}


@pytest.mark.parametrize("format", TAUGHT, ids=lambda f: f.name)
def test_what_is_taught_is_what_is_enforced(format: Format) -> None:
    teaching = select_format(PLAIN, format)
    tools = read_tools([TOOL])
    state = State(calls=0)
    required = Policy(Choice.REQUIRED)
    masked = Masked(teaching.format, tools, required, state)
    prompt = teaching.template.render([USER], [TOOL])
    for count in (1,) if format.single else (1, 2):
        example = write_example(format, count)
        turn = parse(example, teaching.format, tools)
        assert [(c.name, c.arguments) for c in turn.calls] == [
            (c.name, c.arguments) for c in EXAMPLES[:count]
        ]
        assert not turn.content.strip()
        assert all(c.valid for c in turn.calls)
        assert masked.accepts(example)
        assert count == 2 or f"in exactly this form:\n{example}\n" in prompt
    assert teaching.origin is Origin.CHOSEN


@pytest.mark.parametrize("format", TAUGHT, ids=lambda f: f.name)
def test_calls_of_the_history_are_those_of_the_format(format: Format) -> None:
    template = select_format(PLAIN, format).template
    count = 1 if format.single else 2
    result = {"role": "tool", "content": "Done."}
    asks = [USER, calls(*"ab"[:count]), result, USER, calls("c")]
    text = template.render(asks, [TOOL], add_generation_prompt=False)
    turns = [part.partition("<|im_end|>")[0] for part in text.split("<|im_start|>assistant\n")[1:]]
    read = [parse(turn, format, read_tools([TOOL])).calls for turn in turns]
    assert [[c.arguments["text"] for c in turn] for turn in read] == [list("ab"[:count]), ["c"]]


def test_ids_count_over_the_conversation() -> None:
    template = select_format(PLAIN, KIMI_K2).template
    text = template.render([USER, calls("a", "b"), USER, calls("c")], [TOOL])
    history = text.rpartition("Hello")[0].partition("assistant\n")[2] + text.rpartition("Hello")[2]
    numbers = [part[0] for part in history.split("functions.example_tool:")[1:]]
    assert numbers == ["0", "1", "2"]


def test_several_calls() -> None:
    assert describe_several(GENERIC) == "To make several calls, write them one after the other."
    both = write_example(KIMI_K2, 2)
    assert describe_several(KIMI_K2) == f"To make several calls, write them in this form:\n{both}\n"
    single = next(f for f in TAUGHT if f.single and f.bare)
    assert describe_several(single).startswith("Make one call at a time. A call stands alone")


def test_the_own_format_is_taught_by_the_template() -> None:
    template = ChatTemplate(HERMES_SOURCE)
    teaching = select_format(template, HERMES)
    assert teaching.template.source is template.source
    assert teaching.format == read(find_facts(template).detection).format
    assert (teaching.origin, teaching.notice) == (Origin.CHOSEN, "")
    saved = read(find_facts(template).detection).format
    assert select_format(template, saved).template.source is template.source
    changed = select_format(template, replace(saved, between="\n\n"))
    assert isinstance(changed.template, GenericTemplate)
    assert changed.format.between == "\n\n"


def test_another_format_takes_the_reasoning_of_the_template() -> None:
    teaching = select_format(ChatTemplate(HERMES_SOURCE), QWEN3_CODER)
    own = read(find_facts(ChatTemplate(HERMES_SOURCE)).detection).format
    assert teaching.format.reasoning == own.reasoning
    assert teaching.format.call == QWEN3_CODER.call
    assert "instead of hermes" in teaching.notice
    assert select_format(PLAIN, HERMES).format.reasoning is None


@pytest.mark.parametrize("name", sorted(WITH_HEADERS))
def test_headers_cannot_be_taught(name: str) -> None:
    format = find_named(name, FORMATS)
    assert format
    with pytest.raises(RequestError, match=f"{name} cannot be taught.*headers") as info:
        select_format(PLAIN, format)
    assert info.value.hint


def test_a_template_that_writes_headers_keeps_its_format() -> None:
    template = real_templates()["openai-gpt-oss-120b"]
    with pytest.raises(RequestError, match="headers of harmony"):
        select_format(template, HERMES)


def test_another_reasoning_block_cannot_be_taught() -> None:
    seed = find_named("seed_oss", FORMATS)
    assert seed
    with pytest.raises(RequestError, match="<seed:think> </seed:think> and <think> </think>"):
        select_format(ChatTemplate(HERMES_SOURCE), seed)


def test_what_changes_the_instructions_is_refused() -> None:
    broken = CHATML.replace("message.content +", "message.content.replace('<tool_call>', '') +")
    with pytest.raises(RequestError, match="changes what explains it"):
        select_format(ChatTemplate(broken), HERMES)


def test_a_format_that_ends_the_text_is_refused() -> None:
    ending = replace(GENERIC, name="own", between="<|im_end|>")
    with pytest.raises(RequestError, match="begins or ends a text"):
        select_format(PLAIN, ending)


def test_names_and_files(tmp_path: Path) -> None:
    assert read_tool_format("hermes") is HERMES
    assert read_tool_format(HERMES) is HERMES
    own = replace(GENERIC, name="own", between="\n\n")
    path = tmp_path / "own.json"
    path.write_text(dump_format(own), "utf-8")
    assert read_tool_format(path) == read_tool_format(str(path)) == own
    with pytest.raises(RequestError) as info:
        read_tool_format("nothing")
    assert all(f.name in str(info.value) for f in FORMATS)
    path.write_text("{}", "utf-8")
    with pytest.raises(FormatError, match=r"own\.json: the node None"):
        read_tool_format(path)
    path.write_bytes(b"\xff")
    with pytest.raises(RequestError, match="cannot be read"):
        read_tool_format(path)


def test_a_compiler_enforces_what_was_chosen() -> None:
    compiler = Compiler(byte_vocabulary(), ChatTemplate(HERMES_SOURCE), tool_format=QWEN3_CODER)
    turn = compiler.compile(Job([USER], [PING], tool_choice="required"))
    assert turn.format.name == "qwen3_coder"
    assert turn.matcher
    assert turn.matcher.fork().try_commit(list(b"<tool_call>\n<function=ping>\n"))
    assert "instead of hermes" in compiler.notices[0]


def test_on_the_command_line(run: Run, tmp_path: Path) -> None:
    code, _, err = run("call", "Hi", "-m", "no.gguf", "--tool-format", "nothing")
    assert code
    assert "unknown tool format 'nothing'. Known: hermes" in err
    path = write(tmp_path / "f.json", "{")
    assert "f.json: not JSON" in run("call", "Hi", "-m", "no.gguf", "--tool-format", path)[2]
