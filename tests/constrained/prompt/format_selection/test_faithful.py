"""Templates of models that do not exist, against the whole stack: what each writes after its
prompts is what the mask takes and the parser reads (`python -m benchmarks.faithful` tries more)."""

from itertools import islice
from pathlib import Path

import pytest

from benchmarks.faithful import TOOLS, Bench, list_trials
from benchmarks.inputs.rendered import find_start
from constrained.inspect.replay.check import check_rows
from constrained.prompt.job import Job
from constrained.prompt.tools.shapes import read_tools
from grammars.errors import RenderError, ToolError
from grammars.infer.detection import Origin
from grammars.infer.reasoning import find_opener
from grammars.parse.parser import parse
from grammars.parse.render import render
from grammars.turn import Start, State, ToolCall, Turn
from grammars.turn_grammar.arguments.kinds import find_kind
from grammars.wire.format import Marker, Reasoning

FOLDER = Path(__file__).parents[3] / "data" / "invented"
TRIALS = 9  # of each template
EVERY = 17  # of the trials of the benchmark


def open_bench(name: str) -> Bench:
    source = (FOLDER / f"{name}.jinja").read_text(encoding="utf-8")
    return Bench(source, name=name, bos_token="<s>", eos_token="</s>")


def check_turns(name: str, origin: Origin) -> None:
    """Tries turns in the format of a template, which has to come from there."""
    bench = open_bench(name)
    assert bench.teaching.origin is origin
    trials = list_trials(bench.teaching.format.markers)
    for trial in islice(trials, 0, TRIALS * EVERY, EVERY):
        assert not bench.judge(trial)


@pytest.mark.parametrize(
    "name",
    [
        "channels",  # the end of a turn after what closes each part of it
        "double_end_all",
        "turn_wrapped",
        "id_number",  # numbers in front of the name
        "numbered_list",
        "name_index",  # which each turn begins anew
        "markdown_python",  # white space in front of a name
        "typed_arguments",  # or of a key
        "xml_attributes",
        "name_in_tag",
        "thought_with_attribute",
        "reasoning_channel",  # its opener differs from that of content in a word
        "null_content",  # a word where content is missing
        "header_goes_on",
        "python_macro",  # words of Python beside strings of JSON; a tag for each call
        "python_method",  # words between a name and the bracket
        "key_value_lines",  # arguments line by line
        "yaml_lines",
        "string_arguments",  # JSON in a JSON string
        "openai_written",  # in the shape of OpenAI, with ids
        "recipients",  # each part is a message to somebody
        "channel_recipient",  # or in a channel
        "cdata",  # a wrapper around every string
        "list_in_dict",  # an object that holds the list of calls
        "pairs",  # an object for each argument
        "quoted_tags",  # strings of JSON between tags
        "header_behind_result",  # which only a first call has
        "headings",  # arguments that nothing ends
        "yaml_list",  # or nothing but their indentation
        "ruled",  # a line between calls
        "thought_call_content",  # a line break between calls and content after them
        "id_behind",  # which nothing ends
        "name_closes",  # a tag of the name of the call around its arguments
        "needs_system",  # without which it refuses every conversation
        "thought_in_words",  # a thought that ends with its line
        "thought_prompted",  # and that the prompt opens with a line break
        "react_final_answer",  # a thought in every turn, content after words
        "react_pause",  # a word after all calls
        "french_words",
        "chinese_marks",  # words between signs
        "counted_tags",  # the number of a call in its tags
        "typed_param",  # each type by its name
        "key_tags",  # arguments in tags of their names
        "toml_block",  # thoughts that cannot be read
        "thought_in_call",
        "function_role",  # tools after the last question, which end as calls do
        "python_block",  # strings of JSON among lists and words of Python
        "tool_tags_json",  # a tag that ends with the name of the call
        "mapped_calls",  # calls by number, after an empty thought
        "js_call",  # bare keys around values of JSON
        "dotted_lines",  # arguments in the order of their keys
        "sorted_tags",
        "sorted_keys",  # or in tags that only the next one ends
        "ends_differ",  # a list where there are several calls
        "parallel_wrapper",  # or a tag around them
        "content_or_calls",  # calls that would be missing beside content
        "korean_marks",  # short words between signs
        "russian_words",  # a marker of two words
        "await_code",  # or one with attributes
        "header_glued",  # turns that lack the line break of the prompt
        "thought_withheld",  # a block that only prompts have, and close at once
        "openers_only",  # parts of a turn that the next one ends
        "header_word",  # which runs into the text of the turn
        "thought_budget",  # prompts open a thought with other values in its tag
        "fn_tags",  # the name in the tag that closes a call
        "heredoc_values",  # keys that begin a line
        "latex",  # a name that is closed as each value is
        "js_literal",  # bare keys around strings of JSON
        "id_python",  # an id in front of a call in Python
        "mode_word",  # a word of its own in front of calls, and another one in front of content
        "hindi_lines",  # words with marks that belong to their letters
        "sections",  # tags in doubled brackets
        "value_fences",  # headings in front of calls and of each value
        "content_before_thought",
        "json_turn",  # an object with the answer as a string, or with calls
        "final_answer",  # or with the keys of a call
        "recipient_in_tag",  # a name after another attribute in a tag
        "channel_fields",
        "bracket_heads",  # or after a word in capitals
        "type_then_recipient",
        "cut_at_thought",  # history is split at a tag, also in arguments
        "message_per_call",  # parts of a turn that each repeat its header, thoughts too
        "recipient_blob",
        "header_json",  # or a header in JSON, which the prompt leaves open
        "thought_message",  # or a whole header
        "empty_effort",  # an empty block where there is no thought
        "japanese_marks",  # headers and calls that the same sign closes
        "yaml_steps",  # an id between the name and the arguments
        "export_lines",  # a word that ends the call
        "uuid_heads",  # a word after a symbol
        "event_lines",  # a line of JSON for each part
        "answer_word",  # a word in front of an answer, but not of content beside calls
        "blanks_in_source",  # blanks that only the source of the template has
    ],
)
def test_what_a_template_writes_is_enforced(name: str) -> None:
    check_turns(name, Origin.INFERRED)


@pytest.mark.parametrize(
    "name",
    [
        "stated_sentence",  # it tells a marker and what stands after it
        "stated_backwards",  # an example in single quotes, its arguments in front of the name
        "stated_escaped",  # an example with escaped quotes
        "stated_wrapped",  # tags around every turn
        "stated_several",  # a list of two calls over several lines
    ],
)
def test_what_a_prompt_states_is_enforced(name: str) -> None:
    check_turns(name, Origin.SHOWN)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("say_then_do", "content is closed with '<|/say|>', which nothing opens"),
        ("role_message_prompted", "the generation prompt has written a part of this turn"),
        ("name_as_tag", "no tag opens a call: it begins with '<'"),
        ("trims_strings", "with a text with white space around it"),
        ("two_thoughts", "with reasoning and a call it writes"),
        ("counted_brackets", "calls tell how many they are: '[TOOL 1/1] ' and '[TOOL 1/2] '"),
        ("yaml_document", "after the last argument stands '- call: ', which could go on with it"),
        ("escaped_fields", "with a text with brackets"),
        ("typed_elements", "is written in an unknown way"),
        ("word_call", "no tag opens a call: it begins with 'Call '"),
        ("id_twice", "the id of a call is written twice, and no grammar can compare the two"),
        ("type_before_key", "the text in front of an argument depends on its value"),
        ("scheme_values", "values are written in an unknown way: '(list 1 "),
        ("s_expression", "no tag opens a call: it begins with '(call '"),  # as an answer may
    ],
)
def test_what_no_format_says_is_explained(name: str, reason: str) -> None:
    selected = open_bench(name).teaching
    assert selected.origin is Origin.GENERIC
    assert reason in selected.notice


@pytest.mark.parametrize(
    "name", ["toml_block", "thought_in_call", "openers_only", "content_before_thought"]
)
def test_thoughts_that_cannot_be_read_are_left_out_of_prompts(name: str) -> None:
    teaching = open_bench(name).teaching
    assert teaching.format.reasoning is None
    assert "reasoning in an unknown way" in teaching.notice
    thoughtful = {"role": "assistant", "content": "", "reasoning_content": "A thought"}
    call = {"type": "function", "function": {"name": TOOLS[3]["function"]["name"], "arguments": {}}}
    messages = [{"role": "user", "content": "Go"}, {**thoughtful, "tool_calls": [call]}]
    assert "A thought" not in teaching.template.render(messages, TOOLS)
    assert "ping" in teaching.template.render(messages)


def test_a_block_that_prompts_close_at_once_is_a_thought() -> None:
    teaching = open_bench("thought_withheld").teaching
    assert find_start(teaching) == State(Start.CLOSED)
    assert find_start(teaching, deep=True) == State(Start.PLAIN)
    read = parse("<muse>\nI look.</muse>\nIt is so.", teaching.format)
    assert (read.reasoning.strip(), read.content) == ("I look.", "It is so.")


@pytest.mark.parametrize(
    ("name", "effort", "start"),
    [
        ("thought_budget", "none", Start.CLOSED),
        ("thought_budget", "low", Start.OPEN),
        ("thought_budget", "high", Start.OPEN),
        ("effort_marker", "off", Start.CLOSED),
        ("effort_marker", "low", Start.OPEN),
        ("effort_marker", "max", Start.OPEN),
    ],
)
def test_a_prompt_may_open_a_thought_with_any_value(name: str, effort: str, start: Start) -> None:
    teaching = open_bench(name).teaching
    assert find_start(teaching, reasoning_effort=effort) == State(start)


def test_a_turn_without_a_thought_may_begin_with_an_empty_block() -> None:
    format = open_bench("empty_effort").teaching.format
    read = parse("<budget:0></budget><text>It is so.</text>", format)
    assert (read.reasoning, read.content) == ("", "It is so.")


def test_a_word_that_ends_a_call_is_in_no_value() -> None:
    format = open_bench("export_lines").teaching.format
    calls = (ToolCall("compute", {"count": 1, "exact": True}),)
    text = render(Turn(calls=calls), format)
    assert text.endswith("ARG_exact=true\nrun")  # `true` has the first letter of `run`
    assert parse(text, format, read_tools(TOOLS)).calls == calls


def test_only_a_level_may_differ_in_the_tag_of_a_thought() -> None:
    level = Reasoning(Marker('<think effort="low" budget=9>'), Marker("</think>"))
    assert find_opener('<think effort="HIGH" budget=512>', level).text.endswith("512>")
    assert find_opener('<think effort="mine" budget=512>', level) == level.opener
    assert find_opener("", level) == level.opener
    word = Reasoning(Marker("<|think_low|>"), Marker("<|think_end|>"))
    assert find_opener("<|think_9|><|think_max|>", word).text == "<|think_max|>"
    kind = Reasoning(Marker('<msg kind="thought">'), Marker("</msg>"))
    assert find_opener('<msg kind="reply">', kind) == kind.opener


def test_a_heading_opens_calls_but_not_every_heading() -> None:
    format = open_bench("value_fences").teaching.format
    assert format.opener == Marker("## CALL:")
    assert parse("## Weather", format).content == "## Weather"


def test_bare_keys_may_have_signs() -> None:
    format = open_bench("js_literal").teaching.format
    (call,) = parse('<|js|>f({a: [{b;\\*: "x\\"}"}]});<|/js|>', format).calls
    assert call.arguments == {"a": [{"b;\\*": 'x"}'}]}


def test_a_text_that_holds_what_ends_it_is_refused() -> None:
    format = open_bench("heredoc_values").teaching.format
    with pytest.raises(RenderError):
        render(Turn(calls=(ToolCall("f", {"a": "one\nEOV\n<|run.|>"}),)), format)


def test_a_thought_that_its_line_ends_has_no_other_line() -> None:
    format = open_bench("thought_in_words").teaching.format
    read = parse("Thought: I look.\nIt is so.\nThat is all.", format)
    assert (read.reasoning, read.content) == ("I look.", "It is so.\nThat is all.")
    with pytest.raises(RenderError):
        render(Turn("It is so.", "I look.\nI see."), format)


def test_the_line_break_behind_an_opener_in_the_prompt_closes_no_thought() -> None:
    selected = open_bench("thought_prompted").teaching
    state = find_start(selected)
    assert state == State(Start.OPEN)
    read = parse("I look.\nIt is so.", selected.format, (), state)
    assert (read.reasoning, read.content) == ("I look.", "It is so.")


def test_words_around_every_answer_are_no_content() -> None:
    bench = open_bench("plan_say_do")
    assert bench.teaching.origin is Origin.GENERIC
    assert (bench.teaching.format.head, bench.teaching.format.tail) == (
        "<say>",
        "</say>\n<do></do>",
    )
    for trial in islice(list_trials(bench.teaching.format.markers), 0, TRIALS * EVERY, EVERY):
        assert not bench.judge(trial)


def test_a_template_that_changes_answers_is_told_of() -> None:
    source = (FOLDER / "json_turn.jinja").read_text(encoding="utf-8")
    twice = source.replace("m.content|tojson", "m.content|tojson|tojson")
    assert "the template changes the text of answers" in Bench(twice, name="twice").teaching.notice


def test_a_prefill_of_an_answer_in_a_string_is_escaped() -> None:
    bench = open_bench("final_answer")
    begun = {"role": "assistant", "content": 'It is "so"\n'}
    job = Job([{"role": "user", "content": "Go"}, begun], TOOLS, prefill=True)
    prefill = bench.compile_job(job).prefill
    written = prefill.text + prefill.healed
    assert written == '{"action": "final_answer", "action_input": "It is \\"so\\"\\n'


def test_no_tool_may_have_the_name_that_opens_an_answer() -> None:
    format = open_bench("final_answer").teaching.format
    find_kind(format).check_name("final_answers")
    with pytest.raises(ToolError, match="answers begin so"):
        find_kind(format).check_name("final_answer")


def test_what_wraps_answers_is_no_content() -> None:
    bench = open_bench("wrapped_answers")
    format = bench.teaching.format
    assert bench.teaching.origin is Origin.GENERIC
    assert (format.head, format.tail) == ("<answer>", "</answer>")
    assert parse("<answer>It is so.</answer>", format).content == "It is so."
    for trial in islice(list_trials(format.markers), 0, TRIALS * EVERY, EVERY):
        assert not bench.judge(trial)


@pytest.mark.parametrize("markers", ["text", "token"])
@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("blanks_in_source", "<|calls|><|call|>CALL<|/call|><|call|>CALL<|/call|><|/calls|>"),
        ("blanks_in_source", "<|calls|>\n<|call|>CALL<|/call|>\n<|/calls|>"),
        ("stated_several", "<calls>\n[\n  CALL,\n  CALL\n]\n</calls>"),
        ("stated_several", "<calls>[CALL]</calls>"),
    ],
)
def test_white_space_of_a_template_or_an_example_is_free(
    name: str, calls: str, markers: str
) -> None:
    source = (FOLDER / f"{name}.jinja").read_text(encoding="utf-8")
    call = '{"name": "compute", "arguments": {"count": 1}}'
    row = {"template": source, "tools": TOOLS, "messages": [{"role": "user", "content": "Go"}]}
    written = calls.replace("CALL", call)
    (answer,) = check_rows([{**row, "text": written, "markers": markers}])
    assert answer["accepted"]
    assert answer["complete"]
    assert len(answer["tool_calls"]) == calls.count("CALL")
