"""Values that would go on without end are ended, and the turn goes on; other repetition stays."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks.inputs.sources import TEMPLATES
from benchmarks.inputs.stage import DRAW, stage
from constrained.agent.model import Model
from constrained.decode.endless.values import LoopFinder
from constrained.engine.scripted import ScriptedEngine, scripted_logits
from constrained.errors import RequestError
from constrained.model.compile.compiled_turn import CompiledTurn
from constrained.model.reply import Reply
from constrained.prompt.job import Job
from constrained.prompt.template.chat_template import ChatTemplate
from grammars.parse.render import render
from grammars.turn import CallRead, ToolCall, Turn
from tests.scripted_model import BYTES, scripted
from tests.templates import HERMES

LISTS = {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}
PROPERTIES: dict[str, Any] = {
    "items": {"type": "array", "items": {"type": "string"}},
    "text": {"type": "string"},
    "rate": {"type": "number"},
    "rows": LISTS,
    "any": {},
    "last": {"type": "string"},
}
SPEC = {"type": "object", "properties": PROPERTIES, "required": ["last"]}
NOTE = {"type": "function", "function": {"name": "note", "parameters": SPEC}}
ASK = [{"role": "user", "content": "Note it."}]
HEAD = '<tool_call>\n{"name": "note", "arguments": {'
TAIL = '"last": "x"}}\n</tool_call>'


class Looper:
    """Logits of a model that writes a text as long as it may, and then ends its turn in the
    shortest way.

    Args:
        turn: what is generated.
        text: longer than the turn can be, if it has no end.
    """

    def __init__(self, turn: CompiledTurn, text: str):
        assert turn.completer is not None
        self._completer = turn.completer.fork()
        self._vocabulary = turn.vocabulary
        self._first = len(turn.tokens)
        self._follow(text)

    def _follow(self, text: str) -> None:
        self._data = text.encode()
        self._script = scripted_logits(self._vocabulary, text, self._first)

    def __call__(self, sequence: int, tokens: Sequence[int]) -> np.ndarray:
        written = self._vocabulary.text(tokens[self._first :])
        if not self._data.startswith(written):
            ending = self._completer.complete(written.decode())
            assert isinstance(ending, str)
            self._follow(written.decode() + ending)
        return self._script(sequence, tokens)


def loop(head: str, cycle: str) -> str:
    """A text that ends in a cycle without end."""
    return head + cycle * (4000 // len(cycle))


def write(text: str, *, limit: int = 400, draft: bool = False, **options: Any) -> Reply:
    """The reply of a model that would like to write this text."""
    return make_model(text, draft=draft).call(
        ASK, [NOTE], tool_choice="required", max_tokens=limit, sampling=DRAW, **options
    )


def make_model(
    text: str, *, draft: bool = False, kind: Any = Looper, tools: Sequence[Any] = (NOTE,)
) -> Model:
    models: list[Any] = []
    engine = ScriptedEngine(BYTES, lambda s, t: models[0](s, t), context_length=20_000)
    model = Model(engine, ChatTemplate(HERMES), draft=draft)
    models.append(kind(model.compile(Job(ASK, tools, tool_choice="required")), text))
    return model


def check(reply: Reply) -> dict[str, Any]:
    """The arguments of the one call, which is whole."""
    assert reply.finish_reason == "tool_calls"
    (call,) = reply.calls
    assert call.valid
    assert not call.truncated
    return call.arguments


# Loops.

LOOPS = [
    ('"items": ["x"', ', "x"', "items"),
    ('"items": ["x", "y"', ', "vegetarian", "vegan"', "items"),
    ('"text": "so ', "on and ", "text"),
    ('"text": "', " ", "text"),
    ('"text": "', "é", "text"),
    ('"text": "a', r"\n\"a\"", "text"),
    ('"rows": [[0', ", 0", "rows"),
    ('"rows": [[0]', ", [0]", "rows"),
    ('"any": ', "[", "any"),
    ('"any": ', '{"a": ', "any"),
    ('"any": [1', ', {"a": [true, null]}', "any"),
]


@pytest.mark.parametrize(("head", "cycle", "where"), LOOPS)
def test_a_value_that_repeats_itself_is_ended(head: str, cycle: str, where: str) -> None:
    reply = write(loop(HEAD + head, cycle))
    arguments = check(reply)
    assert list(arguments) == [where, "last"]
    assert {ended.where for ended in reply.ended_values} == {f"/tool_calls/0/arguments/{where}"}
    assert reply.ended_values[0].tokens < 300


def test_a_list_is_ended_behind_an_item() -> None:
    for more in range(3):
        arguments = check(write(loop(HEAD + '"items": ["x"', ', "yellow"'), limit=300 + more))
        assert set(arguments["items"]) == {"x", "yellow"}


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_loop_is_left_in_every_format(name: str) -> None:
    place = stage(name, "bytes, token")
    turn = place.model.compile(Job(ASK, [NOTE], tool_choice="required", parallel=False))
    call = ToolCall("note", {"items": ["x", *["red"] * 99], "last": "x"})
    text = render(Turn(calls=(call,)), turn.format, turn.tools, turn.state)
    place._logits = Looper(turn, text)
    (reply,) = place.model.complete([turn], max_tokens=350, sampling=DRAW)
    assert set(check(reply)) == {"items", "last"}
    assert reply.ended_values
    assert turn.matcher is not None
    matcher = turn.matcher.fork()
    assert matcher.try_commit(turn.vocabulary.encode_marked(reply.text, turn.markers))
    assert matcher.is_complete


HEADS = st.sampled_from(sorted({head for head, _, _ in LOOPS}))
CYCLES = st.text(st.sampled_from('ab1 ,"[]{}:'), min_size=1, max_size=9)


class Insistent:
    """Logits of a model that begins its cycle again wherever the grammar lets it.

    Args:
        turn: what is generated.
        text: what it writes first.
        cycle: what it then goes on with.
    """

    def __init__(self, turn: CompiledTurn, text: str, cycle: str):
        self._vocabulary = turn.vocabulary
        self._first = len(turn.tokens)
        self._text = text.encode()
        self._cycle = cycle.encode()

    def __call__(self, sequence: int, tokens: Sequence[int]) -> np.ndarray:
        written = self._vocabulary.text(tokens[self._first :])
        row = np.zeros(len(self._vocabulary.tokens), np.float32)
        if len(written) < len(self._text) and self._text.startswith(written):
            row[self._text[len(written)]] = 30
            return row
        for place, character in enumerate(self._cycle):
            row[character] = max(row[character], 1 + self._measure(written, place))
        return row

    def _measure(self, written: bytes, place: int) -> int:
        """How much of the cycle, up to a place in it, the text ends with."""
        size = 0
        while size < min(12, len(written)):
            if written[-1 - size] != self._cycle[(place - 1 - size) % len(self._cycle)]:
                break
            size += 1
        return size


@settings(max_examples=4)
@given(HEADS, CYCLES)
@example('"any": ', "[")
@example('"any": ', '{"a": ')
@example('"any": ', "[[1], ")
@example('"any": ', '[["x"], {"y": ')
@example('"any": {"a": [', '"b", ')
@example('"rows": [[0', ", 0")
def test_a_model_that_insists_on_its_loops_ends_its_turn(head: str, cycle: str) -> None:
    text = loop(HEAD + head, cycle)[:120]
    model = make_model(text, kind=lambda turn, text: Insistent(turn, text, cycle))
    options: Any = {"tool_choice": "required", "parallel": False, "sampling": DRAW}
    check(model.call(ASK, [NOTE], max_tokens=600, **options))


@pytest.mark.parametrize("cycle", ["[", '{"a": ', '[{"a": ', '{"a": 1, "b": '])
def test_what_nests_is_closed_as_far_as_it_was_opened(cycle: str) -> None:
    head = HEAD + '"any": [["deep", '
    model = make_model(head + cycle * 6, kind=lambda turn, text: Insistent(turn, text, cycle))
    reply = model.call(ASK, [NOTE], tool_choice="required", max_tokens=600, sampling=DRAW)
    depth, deepest = 0, 0
    for size, character in enumerate(reply.text[len(head) :], start=len(head)):
        depth += (character in "[{") - (character in "]}")
        deepest = max(depth, deepest)
        if size > reply.ended_values[0].tokens and character not in "[]{}0":
            break  # the model goes on
    assert deepest > 8
    levels = cycle.count("[") + cycle.count("{")
    assert depth <= levels  # the first period may be one that had begun


@pytest.mark.parametrize(("head", "cycle"), [(head, cycle) for head, cycle, _ in LOOPS[::3]])
def test_drafts_streams_and_forced_tokens_change_nothing(head: str, cycle: str) -> None:
    text = loop(HEAD + head, cycle)
    plain = write(text)
    drafted = write(text, draft=True)
    assert (drafted.text, drafted.ended_values) == (plain.text, plain.ended_values)
    asked = write(text, logprobs=0)  # each token is sampled
    assert (asked.text, asked.ended_values) == (plain.text, plain.ended_values)
    stream = make_model(text).stream(
        ASK, [NOTE], tool_choice="required", max_tokens=400, sampling=DRAW
    )
    events = list(stream)
    read = [event.call.arguments for event in events if isinstance(event, CallRead)]
    assert read == [call.arguments for call in plain.calls]
    assert stream.result.text == plain.text


# Repetition that is none.

DASHES = "-" * 80
MATRIX = json.dumps([[0] * 10] * 10)


@pytest.mark.parametrize(
    "value",
    [
        '"rows": ' + MATRIX,
        '"items": ' + json.dumps(["same"] * 30),
        f'"text": "{DASHES}\\n{DASHES}"',
        '"rows": ' + json.dumps([[number] for number in range(60)]),
    ],
)
def test_legal_repetition_stays(value: str) -> None:
    text = HEAD + value + ", " + TAIL
    reply = write(text, limit=2 * len(text))
    assert (reply.text, reply.ended_values) == (text, ())


@settings(max_examples=10)
@given(st.text("ab ", min_size=1, max_size=20), st.integers(1, 35))  # 1,024 tokens at most
def test_less_than_half_of_the_turn_may_repeat_itself(unit: str, count: int) -> None:
    text = HEAD + f'"items": {json.dumps([unit] * count)}, "text": "{unit * count}", {TAIL}'
    reply = write(text, limit=3 * len(text) + 60)
    assert (reply.text, reply.ended_values) == (text, ())


def test_items_that_a_list_has_to_have_are_written() -> None:
    items = {"type": "array", "items": {"type": "string"}, "minItems": 50}
    tool = {**SPEC, "properties": {**PROPERTIES, "items": items}}
    text = loop(HEAD + '"items": ["x"', ', "x"')
    offered = [{"type": "function", "function": {"name": "note", "parameters": tool}}]
    model = make_model(text, tools=offered)
    options: Any = {"max_tokens": 420, "sampling": DRAW}
    arguments = check(model.call(ASK, offered, tool_choice="required", **options))
    assert 50 <= len(arguments["items"]) < 60


BOUNDED = {
    "items": {"type": "array", "items": {"const": "x"}, "maxItems": 50},
    "text": {"type": "string", "maxLength": 200, "pattern": "^[a-z ]*$"},
}


@pytest.mark.parametrize(
    ("head", "cycle", "where"),
    [('"items": ["x"', ', "x"', "items"), ('"text": "so ', "on ", "text")],
)
def test_what_the_schema_bounds_is_whole_if_it_fits(head: str, cycle: str, where: str) -> None:
    tool = {**SPEC, "properties": {**PROPERTIES, **BOUNDED}}
    offered = [{"type": "function", "function": {"name": "note", "parameters": tool}}]
    options: Any = {"tool_choice": "required", "sampling": DRAW}
    model = make_model(loop(HEAD + head, cycle), tools=offered)
    reply = model.call(ASK, offered, max_tokens=430, **options)
    value = check(reply)[where]
    assert len(value) == (50 if where == "items" else 200)
    assert reply.ended_values == ()
    short = model.call(ASK, offered, max_tokens=260, **options)  # it would not fit
    assert len(check(short)[where]) < len(value)
    bound = model.call(ASK, offered, max_tokens=430, max_repetition=60, **options)
    assert len(check(bound)[where]) < len(value)


def test_bounded_lists_without_end_are_ended() -> None:
    """Each of the inner lists has a bound, their list has none."""
    lists = {"type": "array", "items": {"type": "array", "items": {"const": 0}, "maxItems": 30}}
    tool = {**SPEC, "properties": {**PROPERTIES, "rows": lists}}
    offered = [{"type": "function", "function": {"name": "note", "parameters": tool}}]
    cycle = ", " + json.dumps([0] * 30)
    model = make_model(loop(HEAD + '"rows": [[0]', cycle), tools=offered)
    check(model.call(ASK, offered, tool_choice="required", max_tokens=900, sampling=DRAW))


# What is told.


class Leaver(Looper):
    """Logits of a model that leaves its loop by itself after so many tokens, the shortest way."""

    def __init__(self, turn: CompiledTurn, text: str, count: int):
        super().__init__(turn, text[:count])
        ending = self._completer.complete(text[:count])
        assert isinstance(ending, str)
        self._follow(text[:count] + ending)


def test_nothing_is_told_where_the_model_leaves_its_loop_by_itself() -> None:
    text = loop(HEAD + '"any": ', '["a", ')
    told = write(text).ended_values[0].tokens
    for count in range(told - 10, told + 10, 2):
        model = make_model(text, kind=lambda turn, text, n=count: Leaver(turn, text, n))
        reply = model.call(ASK, [NOTE], tool_choice="required", max_tokens=400, sampling=DRAW)
        check(reply)
        written = reply.text.encode()
        assert bool(reply.ended_values) == (not written.startswith(text[:count].encode())), count


def test_numbers_end_by_themselves() -> None:
    for head, cycle in (('"rate": 0.', "3"), ('"rate": 1', "7"), ('"any": [0.', "142857")):
        reply = write(loop(HEAD + head, cycle))
        assert list(check(reply))[-1] == "last"
        assert reply.ended_values == ()


def test_content_and_reasoning_may_repeat_themselves() -> None:
    said = "<think>\n" + "so " * 199 + "\n</think>\n\n" + "ha " * 80
    reply = scripted(said).call(ASK, [NOTE], max_tokens=1200, sampling=DRAW)
    assert reply.content == "ha " * 80
    assert reply.ended_values == ()


def test_an_answer_is_ended() -> None:
    schema = {"type": "object", "properties": PROPERTIES, "required": ["last"]}
    answer = {"type": "json_schema", "json_schema": {"schema": schema}}
    with scripted('{"items": ["x"' + ', "x"' * 999) as model:
        reply = model.call("Hi", response_format=answer, max_tokens=500, sampling=DRAW)
    assert reply.finish_reason == "stop"
    assert set(reply.parsed["items"]) == {"x"}
    assert {ended.where for ended in reply.ended_values} == {"/content"}


def test_the_bound_is_an_option() -> None:
    text = loop(HEAD + '"items": ["x"', ', "x"')
    assert write(text, max_repetition=None).finish_reason == "length"
    assert write(text, max_repetition=40).ended_values[0].tokens < len(HEAD) + 70
    for wrong in (0, -1, True, "2"):
        with pytest.raises(RequestError) as error:
            write(text, max_repetition=wrong)
        assert error.value.where == "/max_repetition"


# Finding loops.


def find_loop(tokens: Sequence[int], fewest: int, longest: int) -> tuple[int, int] | None:
    """The same by comparing all."""
    for period in range(1, longest + 1):
        length = period
        while length < len(tokens) and tokens[-length - 1] == tokens[-length - 1 + period]:
            length += 1
        if length >= max(fewest, 3 * period) and length <= len(tokens):
            return period, length
    return None


@given(
    st.lists(st.integers(0, 2), max_size=6),
    st.lists(st.integers(0, 2), min_size=1, max_size=6),
    st.integers(0, 30),
    st.integers(1, 12),
)
def test_loops_are_found_exactly(head: list[int], cycle: list[int], more: int, fewest: int) -> None:
    tokens = [*head, *(cycle * 30)[:more]]
    finder = LoopFinder(longest=8)
    for size, token in enumerate(tokens, start=1):
        finder.add(token)
        found = finder.find(fewest)
        expected = find_loop(tokens[:size], fewest, 8)
        assert (found and (found.period, found.length)) == expected
