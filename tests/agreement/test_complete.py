"""Every beginning of a legal turn is completed to a legal turn."""

import json
import random

from hypothesis import event, given, reject, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from grammars.errors import PolicyError
from grammars.parse.parser import parse
from grammars.schema.lowering.lower import lower
from grammars.spelling.styles import spell
from grammars.turn import (
    Answer,
    Choice,
    ChoiceAnswer,
    JsonAnswer,
    Policy,
    RegexAnswer,
    Start,
    State,
    Think,
    Tool,
)
from grammars.turn_grammar.ir.completion import Completer
from grammars.wire.format import Format
from tests.agreement.case_checks import SLOW, assert_obeys, by_name, masked
from tests.agreement.chosen_formats import EACH, SCALE
from tests.agreement.matching import Masked, completed
from tests.schema_strategies import Shape, fitting, leaves, objects, parameters, shapes
from tests.text_strategies import KEYS
from tests.turn_completer import turn_completer
from tests.turn_strategies import Case, cases, policies, seeds, states

FEW = settings(suppress_health_check=SLOW, max_examples=5 * SCALE)


def completer_of(case: Case, grammar: Masked) -> Completer:
    return turn_completer(case.format, case.tools, case.policy, case.state, grammar.ids)


def measure_closers(format: Format) -> int:
    """The length of the longest closer of reasoning or content."""
    closers = [content.closer for content in format.contents]
    return max(map(len, [*closers, format.reasoning.closer.text if format.reasoning else ""]))


def grammars(case: Case) -> list[Masked]:
    """The grammar of the case; not with markers as tokens where a constant of a schema spells one,
    which the tokenizer of the test would take for the marker itself."""
    schemas = json.dumps([tool.schema.source for tool in case.tools], ensure_ascii=False)
    named = any(marker in schemas for marker in case.format.atoms)
    return [grammar for grammar in masked(case) if not (grammar.ids and named)]


@EACH
@FEW
@given(data=st.data())
def test_a_turn_cut_anywhere_is_completed(name: str, data: st.DataObject) -> None:
    case = data.draw(cases(by_name(name)))
    drawn = data.draw(st.lists(st.integers(0, len(case.text)), max_size=12, unique=True))
    places = (0, len(case.text), *drawn)
    for grammar in grammars(case):
        completer = completer_of(case, grammar)
        legal = completed(grammar, completer, case.text) is not None
        event("legal" if legal else "not in the reach of the mask")
        tokens = grammar.encode(case.text)
        for at in places:
            whole = completed(grammar, completer, case.text[:at])
            if whole is None:
                continue
            assert_obeys(parse(whole, case.format, case.tools, case.state), case)
            begun = grammar.encode(case.text[:at])  # half a token begins something else
            if legal and begun == tokens[: len(begun)]:  # half a closer is followed by a whole one
                assert len(whole) <= len(case.text) + measure_closers(case.format)


@EACH
@settings(FEW, max_examples=3 * SCALE)
@given(data=st.data())
def test_a_random_walk_cut_anywhere_is_completed(name: str, data: st.DataObject) -> None:
    case = data.draw(cases(by_name(name)))
    rng = random.Random(data.draw(seeds()))
    for grammar in grammars(case):
        completer = completer_of(case, grammar)
        walk = grammar.walk(rng, case.text[: rng.randint(0, len(case.text))], steps=150)
        event("no end found" if walk is None else "walked")
        for at in (rng.randint(0, len(walk)) for _ in range(8) if walk is not None):
            whole = completed(grammar, completer, walk[:at])
            if whole is not None:
                assert_obeys(parse(whole, case.format, case.tools, case.state), case)


REGEXES = {
    "[a-z]+@[a-z]+\\.(com|org)": st.from_regex("[a-z]+@[a-z]+\\.(com|org)", fullmatch=True),
    "^(yes|no|\\d{3,5})$": st.from_regex("(yes|no|[0-9]{3,5})", fullmatch=True),
    "[^/]*/[^/]{2}": st.from_regex("[^/]*/[^/]{2}", fullmatch=True),
    ".*": st.text(alphabet="ab 0<>é", max_size=8),
    "(.|\\n)*!": st.text(alphabet="ab \n!", max_size=8).map(lambda text: text + "!"),
}
OPTIONS = ("yes", "no", "not sure", "é\n", "  maybe", '{"a": 1}', "n")


@st.composite
def answers(draw: DrawFn, format: Format) -> tuple[Answer, str]:
    """What an answer has to be, and one that fits."""
    match draw(st.sampled_from(["json", "json", "regex", "choice"])):
        case "json":
            shape = draw(answer_shapes())
            schema = lower(shape.schema, only_object=False)
            return JsonAnswer(schema), spell(draw(fitting(shape)), format.hole.style)
        case "regex":
            regex = draw(st.sampled_from(sorted(REGEXES)))
            return RegexAnswer(regex), draw(REGEXES[regex])
        case _:
            options = draw(st.lists(st.sampled_from(OPTIONS), min_size=1, unique=True).map(tuple))
            return ChoiceAnswer(options), draw(st.sampled_from(options))


def answer_shapes() -> SearchStrategy[Shape]:
    return leaves([]) | objects(shapes(), KEYS) | shapes() | parameters()


def heads(format: Format, state: State, think: Think) -> SearchStrategy[str]:
    """What may stand in front of an answer."""
    block = format.reasoning
    if block is None or state.start is Start.CLOSED:
        return st.just("")
    pads = st.sampled_from(["", block.after])
    ends = pads.map(lambda pad: f"{block.closer.text}{pad}")
    closed = ends if think is Think.FORBIDDEN else ends.map(lambda end: "hm\n" + end)
    if state.start is Start.OPEN:
        return closed
    blocks = closed.map(lambda rest: block.opener.text + rest)
    match think:
        case Think.FORBIDDEN:
            return st.just("")
        case Think.REQUIRED:
            return blocks
        case Think.OPTIONAL:
            return blocks | st.just("")


TOOLS = (Tool("get", lower({"type": "object", "properties": {"a": {"type": "integer"}}})),)


@EACH
@FEW
@given(data=st.data())
def test_an_answer_cut_anywhere_is_completed(name: str, data: st.DataObject) -> None:
    format = by_name(name)
    state = data.draw(states(format))
    drawn = data.draw(policies(["get"], format, state))
    answer, text = data.draw(answers(format))
    choice = data.draw(st.sampled_from([Choice.NONE, Choice.AUTO]))
    policy = Policy(choice, think=drawn.think, answer=answer)
    text = data.draw(heads(format, state, drawn.think)) + text
    source = ""
    if isinstance(answer, JsonAnswer):
        source = json.dumps(answer.schema.source, ensure_ascii=False) + text[8:]
    named = any(marker in source for marker in format.atoms)
    try:
        modes = [False] if named else [False, True]
        masks = [Masked(format, TOOLS, policy, state, single) for single in modes]
    except PolicyError:
        assert choice is Choice.AUTO
        reject()
    places = data.draw(st.lists(st.integers(0, len(text)), max_size=10, unique=True))
    for grammar in masks:
        completer = turn_completer(format, TOOLS, policy, state, grammar.ids)
        taken = [completed(grammar, completer, text[:at]) for at in (0, len(text), *places)]
        assert taken[0] is not None
        event("taken to the end" if taken[1] is not None else "not taken to the end")


@EACH
def test_a_turn_cut_behind_a_special_token_is_completed(name: str) -> None:
    """Where a marker is a special token and text, it may be cut between them."""
    format = by_name(name)
    tools = (Tool("get", lower({"type": "object", "properties": {}})),)
    grammar = Masked(format, tools, Policy(), State(), single=True)
    completer = turn_completer(format, tools, Policy(), State(), grammar.ids)
    for token in grammar.ids:
        completed(grammar, completer, token)
