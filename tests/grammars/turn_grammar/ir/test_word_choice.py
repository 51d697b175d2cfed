"""Choices that are read by an index are read, and ended, as if each option was read by itself."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grammars.limits.steps import limit_steps
from grammars.schema.bits import ALWAYS, KEEP, Condition, SetBit, count
from grammars.turn_grammar.ir import word_choice
from grammars.turn_grammar.ir.completion import Completer
from grammars.turn_grammar.ir.grammar import Grammar, GrammarBuilder
from grammars.turn_grammar.ir.nodes import (
    ZERO,
    Expression,
    Literal,
    RuleReference,
    choice,
    guarded,
    sequence,
)

WORDS = st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=30, unique=True)
MANY = 5_000


def list_members(keys: list[str], values: list[str], needed: int) -> Grammar:
    """Members of an object, in any order, each at most once; values are words, too."""
    builder = GrammarBuilder()
    value = builder.define(choice([Literal(f"{word};") for word in values]), "value")
    following: list[tuple[Expression, Condition]] = []
    for place, key in enumerate(keys):
        pair = builder.define(sequence(Literal(f"{key}:"), value), "pair")
        after = RuleReference("more", SetBit(place))
        following.append((sequence(pair, after), count(place, place + 1, 0, 0)))
    can_end = count(0, len(keys), needed)
    another = sequence(Literal(","), RuleReference("next", KEEP))
    bodies = {
        "next": guarded(following),
        "more": guarded([(Literal("."), can_end), (another, ALWAYS)]),
    }
    names = builder.family(bodies, least=needed)
    return builder.build(builder.enter(RuleReference(names["next"], ZERO)))


@pytest.mark.parametrize("separate", [1, 4])
@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_an_index_changes_no_completion(separate: int, data: st.DataObject) -> None:
    keys, values = data.draw(WORDS), data.draw(WORDS)
    grammar = list_members(keys, values, data.draw(st.integers(0, min(3, len(keys)))))
    plain = Completer(grammar)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_choice, "FEWEST_OPTIONS", 2)
        patch.setattr(word_choice, "MAX_SEPARATE", separate)
        indexed = Completer(grammar)
        text = ""
        for _ in range(12):
            known = plain.complete(text)
            assert indexed.complete(text) == known, text
            following = data.draw(st.sampled_from("ab:;,."))
            if isinstance(known, str) and known and data.draw(st.booleans()):
                following = known[: data.draw(st.integers(1, len(known)))]
            text += following


def count_steps(completer: Completer, text: str) -> int:
    with limit_steps(10**9) as account:
        assert completer.complete(text) is not None
    assert account.left is not None
    return 10**9 - account.left


def test_a_choice_of_thousands_takes_few_steps() -> None:
    words = [f"{number:05}" for number in range(MANY)]
    completer = Completer(list_members(words, words, 0)).fork()
    for text in ("", "000", "00012:", "00012:00", "00012:00017;,", "00012:00017;,0001"):
        assert count_steps(completer, text) < MANY / 5


def test_a_word_may_begin_another_one() -> None:
    builder = GrammarBuilder()
    words = ["a" * size for size in range(1, word_choice.FEWEST_OPTIONS + 1)]
    completer = Completer(builder.build(sequence(choice(map(Literal, words)), Literal("!"))))
    assert completer.complete("") == "a!"
    assert completer.complete("a" * 30) == "!"
    assert completer.complete("a" * 30 + "!") == ""
    assert completer.complete("a" * 200) is None
