"""Schemas that are too large: refused with the place, or held loosely and checked afterwards."""

import random
import time
from typing import Any

import pytest

from constrained.engine.llama_files import read_header
from constrained.engine.vocabulary.vocabulary import (
    Tokenizer,
    Vocabulary,
    build_tokenizer,
    byte_vocabulary,
)
from constrained.errors import GrammarError
from constrained.inspect.replay.replay_context import byte_tokenizer
from constrained.mask import matcher as mask
from constrained.mask.matcher import MAX_BRANCHES, MAX_RULES, Matcher
from constrained.model.compile import grammar_compiler
from constrained.model.compile.compiler import Compiler
from constrained.prompt.job import Job
from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.tools.shapes import MAX_TOOLS, read_tools
from grammars.errors import PolicyError, SchemaError, ToolError
from grammars.limits.steps import StepsError, limit_steps
from grammars.schema.lowering.keywords import MAX_REMAINDERS
from grammars.schema.lowering.lower import lower
from grammars.schema.lowering.nodes.flat import MAX_VALUES
from grammars.schema.nodes import LARGEST_MULTIPLE, Number, Schema, String, Union
from grammars.turn import Choice, ChoiceAnswer, Policy, State, Tool
from grammars.turn_grammar.turn import build_grammar
from grammars.wire.format import find_named
from grammars.wire.formats import FORMATS
from tests.agreement.matching import Masked
from tests.real_templates import require_models_directory
from tests.templates import HERMES, PING, tool


def one(node: Any) -> Schema:
    return lower({"type": "object", "properties": {"x": node}, "required": ["x"]})


def checked(schema: Schema) -> list[tuple[str, str]]:
    return [(finding.pointer, finding.keyword) for finding in schema.report.checked]


def _name_keys(count: int) -> dict[str, Any]:
    return {"properties": {f"p{number}": {"type": "string"} for number in range(count)}}


def _wrap(**schema: Any) -> dict[str, Any]:
    return {"properties": {"a" * 100_000: schema}}


@pytest.mark.parametrize(
    "schema",
    [
        _wrap(**_name_keys(900)),
        _wrap(properties={f"p{number}": True for number in range(900)}),
        _wrap(properties={f"p{number}": {} for number in range(900)}),
        _wrap(anyOf=[False] * 900),
        _wrap(dependentRequired={f"p{number}": ["b"] for number in range(900)}),
        _wrap(dependencies={f"p{number}": ["b"] for number in range(900)}),
        {
            "properties": {"x": {"$ref": f"#/$defs/{'a' * 100_000}"}},
            "$defs": {"a" * 100_000: _name_keys(900)},
        },
    ],
    ids="keys booleans empty anyOf dependentRequired dependencies definition".split(),
)
def test_long_names_around_many_keys_are_refused(schema: Any) -> None:
    with pytest.raises(SchemaError, match="too many subschemas"):
        lower({"type": "object", **schema})


def test_a_long_name_without_others_is_allowed() -> None:
    assert not lower({"type": "object", "properties": {"a" * 100_000: {}}}).report.checked


@pytest.mark.parametrize("name", ["$anchor", "$id"])
def test_long_ids_of_many_parts_are_refused(name: str) -> None:
    uri = "http://x/" + "a/" * 10_000
    references = {
        f"p{n}": {"$ref": f"#a{n}" if name == "$anchor" else f"a{n}"} for n in range(1_000)
    }
    definitions = {f"d{number}": {name: f"a{number}"} for number in range(1_000)}
    schema = {"$id": uri, "type": "object", "properties": references, "$defs": definitions}
    with pytest.raises(SchemaError, match="too large"):
        lower(schema)
    lowered = lower({**schema, "$id": "http://x/a/"})
    assert not lowered.report.ignored


@pytest.mark.parametrize("end", ["", "\\"])
def test_a_set_that_nothing_closes_is_searched_once(end: str) -> None:
    """It took the square of its length, and other threads waited: for ever, at this length."""
    with pytest.raises(SchemaError, match=r"pattern|regex"):
        one({"type": "string", "pattern": "[" * 200_000 + end})


def test_conjunctions_that_multiply_are_checked() -> None:
    either = [{"anyOf": [{"required": [f"a{i}"]}, {"required": [f"b{i}"]}]} for i in range(16)]
    schema = one(
        {"type": "object", "properties": {"y": {"allOf": [*either, *either]}}, "anyOf": either}
    )
    reason = "too many conjunctions inside each other"
    assert reason in {finding.reason for finding in schema.report.checked}
    assert not schema.admits({"x": {"y": {"a0": 1}}})


def test_alternatives_inside_of_alternatives_are_checked_where_they_multiply() -> None:
    # each case has cases of its own, as files of settings have them for each kind of a part
    kinds: list[Any] = []
    for kind in range(24):
        inner = [
            {
                "if": {"properties": {"mode": {"const": f"{kind} {mode}"}}, "required": ["mode"]},
                "then": {"properties": {f"level{mode}": {"type": "integer"}}},
                "else": {"not": {"required": [f"level{mode}"]}},
            }
            for mode in range(12)
        ]
        kinds.append(
            {
                "if": {"properties": {"kind": {"const": f"k{kind}"}}, "required": ["kind"]},
                "then": {"allOf": inner},
            }
        )
    schema = one({"type": "object", "required": ["kind"], "allOf": kinds})
    assert "if" in {finding.keyword for finding in schema.report.checked}
    assert schema.admits({"x": {"kind": "k0", "mode": "0 3", "level3": 1}})
    assert not schema.admits({"x": {"kind": "k0", "mode": "0 3", "level3": "high"}})


def test_a_reference_to_itself_inside_of_a_conjunction_that_changes_each_time() -> None:
    # each level adds what others may have, so that no conjunction is one of those before
    def widen(name: str) -> dict[str, Any]:
        others = [{"$ref": f"#/$defs/{other}"} for other in "abcde" if other != name]
        return {
            "allOf": [{"$ref": f"#/$defs/{name}"}],
            "properties": {f"from_{name}": {"oneOf": others}},
            "additionalProperties": {"anyOf": [*others, {"type": "array", "items": others[0]}]},
        }

    wider = widen("a")
    definitions = {
        name: {"type": "object", "properties": {other: widen(other) for other in "abcde"}}
        for name in "abcde"
    }
    schema = lower({"type": "object", "properties": {"x": wider}, "$defs": definitions})
    assert schema.report.checked
    assert schema.admits({"x": {"a": {"a": {}}}})
    assert not schema.admits({"x": {"a": 5}})


def test_patterns_of_keys_that_overlap_too_much_are_checked() -> None:
    words = ["block", "field", "view", "node", "user", "role", "menu", "term"]
    patterns = {f"{word}[a-z]*{word}": {"type": "integer"} for word in words}
    schema = one({"type": "object", "patternProperties": patterns, "additionalProperties": False})
    assert ("/properties/x", "patternProperties") in checked(schema)
    assert schema.admits({"x": {"blockblock": 1}})
    assert not schema.admits({"x": {"other": 1}})


def test_a_document_is_read_once_however_many_of_its_parts_are_compared() -> None:
    parts = {
        f"d{i}": {"type": "object", "properties": {"a": {"pattern": "^a"}}} for i in range(500)
    }
    shape = {"properties": {"a": {"$ref": "#/$defs/d0"}}}
    chosen = {f"p{i}": {**shape, "enum": [{"a": {"a": i}}, {"a": {}}]} for i in range(100)}
    schema = lower({"type": "object", "properties": chosen, "$defs": parts})
    assert checked(schema) == []


def test_too_many_subschemas_are_refused_before_they_are_read() -> None:
    def define(count: int) -> Any:
        return {"type": "object", "properties": {f"p{i}": {} for i in range(count)}}

    unused = {"type": "object", "$defs": define(30_000)["properties"]}
    assert lower(unused).objects
    with pytest.raises(SchemaError, match="too many subschemas"):
        lower(define(30_000))


def test_long_enums_are_checked() -> None:
    words = [f"word {i}" for i in range(MAX_VALUES + 1)]
    schema = one({"enum": words})
    assert checked(schema) == [("/properties/x", "enum")]
    assert schema.objects[0].properties[0].node == String()
    assert not schema.admits({"x": "other"})
    mixed = one({"enum": [*words, 1, 2.5]}).objects[0].properties[0].node
    assert mixed == Union((String(), Number()))
    assert checked(one({"enum": words[:-1]})) == []


def test_a_long_constant_is_checked() -> None:
    schema = one({"const": [*range(2 * MAX_VALUES)], "uniqueItems": True})
    assert ("/properties/x", "const") in checked(schema)


@pytest.mark.parametrize("keyword", ["maxLength", "maxItems", "minLength", "minItems"])
def test_lengths_beyond_any_text_are_checked(keyword: str) -> None:
    schema = one({"type": ["string", "array"], keyword: 2**53 - 1})
    assert checked(schema) == [("/properties/x", keyword)]
    text = build_grammar(FORMATS[0], [Tool("t", schema)], Policy(), State())
    Matcher.compile(byte_tokenizer(())[1], text)


def test_long_patterns_are_checked() -> None:
    assert checked(one({"type": "string", "pattern": "a" * 100_000})) == [
        ("/properties/x", "pattern")
    ]


def conjoin_patterns(*patterns: str) -> Any:
    return {"type": "string", "allOf": [{"pattern": pattern} for pattern in patterns]}


@pytest.mark.parametrize(
    "texts",
    [
        [
            {"type": "string", "not": {"pattern": f"^[a-z]{{3,20}}{i}[0-9]{{2,9}}$"}}
            for i in range(150)
        ],
        [conjoin_patterns(r"^https:\/\/", rf"\.example{i}$") for i in range(60)],
        [conjoin_patterns(*[f"a{i}" for i in range(4)])],
    ],
)
def test_many_patterns_are_joined_and_excluded(texts: list[Any]) -> None:
    properties = {f"v{i}": text for i, text in enumerate(texts)}
    assert not lower({"type": "object", "properties": properties}).report.checked


def test_more_patterns_than_can_be_joined_are_checked() -> None:
    assert lower(conjoin_patterns(*[f"a{i}" for i in range(200)]), only_object=False).report.checked


def test_equal_patterns_are_joined_once() -> None:
    text = conjoin_patterns("^https:", r"\.example$")
    properties = {f"v{i}": text for i in range(300)}
    assert not lower({"type": "object", "properties": properties}).report.checked


def test_many_patterns_of_keys_are_checked() -> None:
    names = {"anyOf": [{"pattern": f"^a{i}"} for i in range(2_000)]}
    report = lower({"type": "object", "propertyNames": names}, close=False).report
    assert [finding.keyword for finding in report.checked] == ["propertyNames"]


def test_long_enums_are_compared_in_no_time() -> None:
    start = time.perf_counter()
    parts = [{"enum": [f"v{i}" for i in range(first, first + 2000)]} for first in (0, 1)]
    assert checked(one({"allOf": parts})) == []
    assert time.perf_counter() - start < 2


@pytest.mark.parametrize("step", [MAX_REMAINDERS + 1, 2**31 - 1, 0.05, 1.00003])
def test_multiples_of_many_residues_are_checked(step: float) -> None:
    schema = one({"type": "number", "multipleOf": step})
    assert checked(schema) == [("/properties/x", "multipleOf")]
    assert schema.admits({"x": step})
    assert not schema.admits({"x": step / 2})
    assert checked(one({"type": "number", "multipleOf": 100})) == []
    assert checked(one({"type": "integer", "multipleOf": 2.5})) == []
    assert checked(one({"multipleOf": 10**400})) == [("/properties/x", "multipleOf")]


@pytest.mark.parametrize("name", ["hermes", "qwen3_coder"])
def test_a_grammar_that_is_too_large(name: str) -> None:
    format = find_named(name, FORMATS)
    assert format
    words = ["x" * 500 + str(i) for i in range(MAX_VALUES)]
    tools = [Tool("many", one({"enum": words}))]
    with pytest.raises(StepsError), limit_steps(400_000):
        build_grammar(format, tools, Policy(), State())


@pytest.mark.parametrize(
    ("grammar", "what"),
    [
        ("start: r0\n" + "".join(f'r{i}: "a"\n' for i in range(MAX_RULES)), "rules"),
        ("start: " + " | ".join(f'"{i}"' for i in range(MAX_BRANCHES + 2)), "branches"),
    ],
)
def test_a_grammar_of_too_many(grammar: str, what: str) -> None:
    with pytest.raises(GrammarError, match=f"[0-9,]+ {what}, the limit is"):
        Matcher.compile(byte_tokenizer(())[1], grammar)


MANY = ChoiceAnswer(tuple(f"option {i}" for i in range(70_000)))


@pytest.mark.parametrize("tools", [(), (PING,)])
def test_an_answer_of_too_many_branches_is_to_blame(tools: tuple[Any, ...]) -> None:
    compiler = Compiler(byte_vocabulary(), ChatTemplate(HERMES))
    with pytest.raises(PolicyError, match="70,000 choices, the limit is 10,000") as e:
        compiler.compile(Job([{"role": "user", "content": "Hi"}], tools, answer=MANY))
    assert e.value.where == "/choice"
    with pytest.raises(PolicyError, match="70,000 choices, the limit is 10,000") as e:
        compiler.compile_text("Hi", MANY)
    assert e.value.where == "/choice"


@pytest.mark.parametrize("answer", [None, ChoiceAnswer(("yes", "no"))])
def test_tools_that_are_too_many_together_are_to_blame(
    answer: ChoiceAnswer | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mask, "MAX_BRANCHES", 100)
    tools = [
        tool(f"t{i}", {f"a{i}": {"enum": [f"v{i} {value}" for value in range(30)]}})
        for i in range(5)
    ]
    compiler = Compiler(byte_vocabulary(), ChatTemplate(HERMES))
    user = [{"role": "user", "content": "Hi"}]
    with pytest.raises(GrammarError, match=r"branches, the limit is 100 .*Offer fewer tools") as e:
        compiler.compile(Job(user, tools, answer=answer))
    assert e.value.where == "/tools"
    assert compiler.compile(Job(user, tools[:2], answer=answer)).matcher


def test_a_vocabulary_that_no_grammar_can_use_is_not_the_fault_of_tools(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any) -> Any:
        raise GrammarError("every end-of-generation token is a marker of the format")

    monkeypatch.setattr(grammar_compiler, "build_tokenizer", fail)
    compiler = Compiler(byte_vocabulary(), ChatTemplate(HERMES))
    with pytest.raises(GrammarError, match="every end-of-generation token") as e:
        compiler.compile(Job([{"role": "user", "content": "Hi"}], [PING]))
    assert e.value.where is None


def test_too_many_tools() -> None:
    many = [{"name": f"t{i}", "inputSchema": {"type": "object"}} for i in range(MAX_TOOLS + 1)]
    with pytest.raises(ToolError, match="there are 1,001 tools, the limit is 1,000"):
        read_tools(many)
    assert len(read_tools(many[:-1])) == MAX_TOOLS


@pytest.fixture(scope="module")
def llama3() -> tuple[Vocabulary, Tokenizer]:
    """Llama 3's vocabulary, in which all numbers of three digits are tokens."""
    file = require_models_directory() / "ggml-vocab-llama-bpe.gguf"
    vocabulary = read_header(file).vocabulary
    return vocabulary, build_tokenizer(vocabulary, ())


@pytest.mark.parametrize("divisor", [MAX_REMAINDERS, MAX_REMAINDERS - 1])
@pytest.mark.parametrize("bounds", [{}, {"minimum": 0, "maximum": 10**6}])
def test_long_multiples_do_not_exhaust_the_mask(
    divisor: int, bounds: dict[str, int], llama3: tuple[Vocabulary, Tokenizer]
) -> None:
    """From 10,000 remainders on, they did."""
    schema = one({"type": "number", "multipleOf": divisor, **bounds})
    assert checked(schema) == []
    format = find_named("hermes", FORMATS)
    assert format
    policy = Policy(choice=Choice.REQUIRED)
    masked = Masked(format, [Tool("f", schema)], policy, State(), real=llama3)
    rng = random.Random(divisor)
    largest = bounds.get("maximum", LARGEST_MULTIPLE)
    for _ in range(3):
        number = rng.randint(0, largest // divisor) * divisor
        matcher = masked.matcher.fork()
        for token in masked.encode(f'<tool_call>\n{{"name": "f", "arguments": {{"x": {number}'):
            assert matcher.mask()[token]
            matcher.commit(token)


@pytest.mark.parametrize(
    ("divisors", "checked_pointers"),
    [
        ([3, 5], []),
        ([4_998, 2_499], []),
        ([4_999, 4_998], ["/properties/x/anyOf/1"]),
        ([61, 67, 71, 3], ["/properties/x/anyOf/2", "/properties/x/anyOf/3"]),
    ],
)
def test_multiples_of_alternatives_are_followed_together(
    divisors: list[int], checked_pointers: list[str], llama3: tuple[Vocabulary, Tokenizer]
) -> None:
    """Each of them alone is within the limit; together they exhausted the mask."""
    parts: list[Any] = [{"multipleOf": divisor} for divisor in divisors]
    choice: Any = {"type": "number", "anyOf": [*parts[:-1], {"$ref": "#/$defs/last"}]}
    definitions: Any = {"last": {"type": "number", **parts[-1]}}
    schema = lower({"type": "object", "properties": {"x": choice}, "$defs": definitions})
    assert checked(schema) == [(pointer, "multipleOf") for pointer in checked_pointers]
    for finding in (*schema.report.enforced, *schema.report.narrowed):
        assert (finding.pointer, finding.keyword) not in checked(schema)
    format = find_named("hermes", FORMATS)
    assert format
    masked = Masked(
        format, [Tool("f", schema)], Policy(choice=Choice.REQUIRED), State(), real=llama3
    )
    rng = random.Random(1)
    for divisor in divisors:
        number = rng.randint(0, 10**12 // divisor) * divisor
        matcher = masked.matcher.fork()
        for token in masked.encode(f'<tool_call>\n{{"name": "f", "arguments": {{"x": {number}'):
            assert matcher.mask()[token]
            matcher.commit(token)


def test_the_multiples_of_a_document_are_limited_together() -> None:
    """Wherever they are: alternatives, definitions and conditions may put them at one place."""
    properties = {
        name: {"type": "integer", "multipleOf": divisor}
        for name, divisor in (("a", 1_000), ("b", 60), ("c", 3_000), ("d", 7))
    }
    schema = lower({"type": "object", "properties": properties})
    assert checked(schema) == [("/properties/d", "multipleOf")]
    condition = {"if": {"properties": {"k": {"const": 1}}}}
    condition |= {"then": {"properties": {"a": {"multipleOf": 4_999}}}}
    condition |= {"else": {"properties": {"a": {"multipleOf": 4_998}}}}
    integers = {"k": {"type": "integer"}, "a": {"type": "integer"}}
    schema = lower({"type": "object", "properties": integers, **condition}, close=False)
    assert checked(schema) == [("/properties/a", "multipleOf")]


@pytest.mark.parametrize("divisor", [43_200, 9_999, 0.2, 0.764])
def test_multiples_that_a_mask_cannot_follow_are_checked(divisor: float) -> None:
    assert checked(one({"type": "number", "multipleOf": divisor})) == [
        ("/properties/x", "multipleOf")
    ]
