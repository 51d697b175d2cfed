"""The shortest completion of random grammars, against what llguidance takes."""

import random
from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from constrained.inspect.replay.replay_context import byte_tokenizer
from constrained.mask.matcher import Matcher
from grammars.limits.steps import limit_steps
from grammars.schema.bits import KEEP, SetBit, count
from grammars.turn_grammar.ir.completion import MAX_TURN_STEPS, PIECE_STEPS, Completer
from grammars.turn_grammar.ir.grammar import Grammar, GrammarBuilder
from grammars.turn_grammar.ir.nodes import (
    EMPTY,
    ZERO,
    Complement,
    EmbeddedLark,
    Expression,
    JsonSchema,
    Language,
    Literal,
    Pattern,
    Repeat,
    RuleReference,
    choice,
    guarded,
    intersection,
    many,
    optional,
    sequence,
)

LETTERS = "abc"
END = ";"  # ends each text: the lexer could not give up a lexeme that may go on

VOCABULARY, TOKENIZER = byte_tokenizer(())


def matcher_of(grammar: Grammar) -> Matcher:
    return Matcher.compile(TOKENIZER, grammar.lark)


def takes(matcher: Matcher, text: str) -> bool:
    """Is the text one of the grammar?"""
    fork = matcher.fork()
    tokens = VOCABULARY.encode(text)
    if fork.count_accepted(tokens) < len(tokens):
        return False
    for token in tokens:
        fork.commit(token)
    return fork.is_complete


def begins(matcher: Matcher, text: str) -> bool:
    """Does a text of the grammar begin so?"""
    tokens = VOCABULARY.encode(text)
    return matcher.fork().count_accepted(tokens) == len(tokens)


def expressions(inner: SearchStrategy[Expression]) -> SearchStrategy[Expression]:
    several = st.lists(inner, min_size=1, max_size=3)
    repeats = st.tuples(inner, st.integers(0, 2), st.none() | st.integers(2, 3))
    return st.one_of(
        several.map(lambda parts: sequence(*parts)),
        several.map(choice),
        inner.map(optional),
        repeats.map(lambda drawn: Repeat(*drawn)),
    )


def words() -> SearchStrategy[Expression]:
    return st.text(LETTERS, min_size=1, max_size=3).map(Literal)


BODIES = st.recursive(words(), expressions, max_leaves=5)
TERMINALS = st.sampled_from(["[ab]+", "a{2,3}b?", "(ab|c)+", "[^;!]*c", "b*a"])


@st.composite
def grammars(draw: Callable[..., Expression]) -> Grammar:
    """A grammar with terminals, greedy and lazy ones, and a rule that refers to itself."""
    rules = GrammarBuilder()
    name = rules.reserve("again")
    body = draw(BODIES)
    rules.fill(name, choice([sequence(Literal("("), RuleReference(name), Literal(")")), body]))
    parts: list[Expression] = [RuleReference(name), draw(BODIES)]
    pattern = draw(TERMINALS.map(Pattern))
    parts.append(sequence(Literal("!"), rules.terminal(pattern, "WORD"), Literal("!")))
    parts.append(rules.lazy(sequence(pattern, Literal("!")), "text"))
    some = draw(st.lists(st.sampled_from(parts), min_size=1, max_size=3))
    start = draw(st.sampled_from([sequence(*some), choice(some), many(choice(some))]))
    return rules.build(sequence(start, Literal(END)))


@settings(max_examples=150)
@given(grammar=grammars(), seed=st.integers(0, 2**16))
def test_each_beginning_is_completed_in_the_shortest_way(grammar: Grammar, seed: int) -> None:
    matcher = matcher_of(grammar)
    draw = random.Random(seed)
    completer = Completer(grammar)
    text = ""
    for _ in range(8):
        rest = completer.complete(text)
        assert rest is not None, (text, grammar.lark)
        assert takes(matcher, text + rest), (text, rest, grammar.lark)
        shorter = (
            "".join(letters)
            for length in range(min(len(rest), 4))
            for letters in product(LETTERS + "()!" + END, repeat=length)
        )
        assert not any(takes(matcher, text + other) for other in shorter), (text, rest)
        legal = [c for c in LETTERS + "()!" + END if begins(matcher, text + c)]
        if not legal:
            break
        text += draw.choice(legal)


@settings(max_examples=60)
@given(
    grammar=grammars(), cuts=st.lists(st.integers(0, 12), max_size=4), seed=st.integers(0, 2**16)
)
def test_what_was_read_before_changes_nothing(grammar: Grammar, cuts: list[int], seed: int) -> None:
    matcher = matcher_of(grammar)
    draw = random.Random(seed)
    text = ""
    while len(text) < 12:
        legal = [c for c in LETTERS + "()!" if begins(matcher, text + c)]
        if not legal:
            break
        text += draw.choice(legal)
    completer = Completer(grammar)
    for cut in cuts:
        assert completer.complete(text[:cut]) == Completer(grammar).complete(text[:cut])


def family(fewest: int, needed: int) -> Grammar:
    """Twenty words in any order, each once."""
    rules = GrammarBuilder()
    free = [count(bit, bit + 1, 0, 0) for bit in range(20)]
    options = [
        (sequence(Literal(f"w{bit},"), RuleReference("more", SetBit(bit))), way)
        for bit, way in enumerate(free)
    ]
    ended = count(0, needed, needed) if needed else count(0, 20, fewest)
    bodies = {"more": guarded([(Literal("."), ended), *options])}
    names = rules.family(bodies, needed=(1 << needed) - 1, least=fewest)
    return rules.build(rules.enter(RuleReference(names["more"], ZERO)))


def test_many_members_in_any_order_are_not_tried_in_every_order() -> None:
    assert (
        Completer(family(0, 20)).complete("w7,")
        == "".join(f"w{bit}," for bit in range(20) if bit != 7) + "."
    )
    rest = Completer(family(12, 0)).complete("w3,")
    assert rest is not None
    assert rest.count(",") == 11


def test_a_member_that_keeps_the_parameter() -> None:
    rules = GrammarBuilder()
    clear, is_set = count(0, 1, 0, 0), count(0, 1, 1)
    again = sequence(Literal("c"), RuleReference("then", KEEP))
    bodies = {
        "first": guarded([(sequence(Literal("a"), RuleReference("then", SetBit(0))), clear)]),
        "then": guarded([(Literal("b"), is_set), (again, is_set)]),
    }
    names = rules.family(bodies, needed=1)
    grammar = rules.build(rules.enter(RuleReference(names["first"], ZERO)))
    assert Completer(grammar).complete("acc") == "b"
    assert takes(matcher_of(grammar), "accb")


def test_equal_families_share_their_rules() -> None:
    rules = GrammarBuilder()
    bodies = {"more": guarded([(Literal("."), count(0, 1, 1))])}
    assert rules.family(bodies) is rules.family(dict(bodies))


class Even(Language):
    """Words of an even number of letters."""

    def begins(self, text: str) -> bool:
        return set(text) <= {"e"}

    def accepts(self, text: str) -> bool:
        return len(text) % 2 == 0

    def extend(self, text: str) -> str | None:
        return "e" * (len(text) % 2)


def test_a_lexeme_of_a_language() -> None:
    rules = GrammarBuilder()
    grammar = rules.build(sequence(JsonSchema("{}", Even()), Literal(END)))
    assert Completer(grammar).complete("eee") == "e;"
    assert Completer(grammar).complete("eex") is None


def test_what_is_not_known() -> None:
    rules = GrammarBuilder()
    embedded = sequence(Literal("x"), EmbeddedLark('start: "a"'))
    assert Completer(rules.build(embedded)).complete("x") is None
    unknown = rules.build(sequence(JsonSchema('{"type": "string"}'), Literal(END)))
    assert Completer(unknown).complete("") is None
    unread = rules.build(rules.terminal(Pattern(r"\p{Greek}+"), "GREEK"))
    assert Completer(unread).complete("") is None
    assert Completer(rules.build(Literal("abc"))).complete("b") is None


def test_intersections_and_complements() -> None:
    rules = GrammarBuilder()
    body = intersection(Pattern("[a-c]{2}"), Complement(Pattern("a.*")))
    grammar = rules.build(sequence(rules.terminal(body, "WORD"), Literal(END)))
    rest = Completer(grammar).complete("")
    assert rest is not None
    assert takes(matcher_of(grammar), rest)
    assert len(rest) == 3


def test_long_lists_and_deep_nesting_need_no_deep_stack() -> None:
    rules = GrammarBuilder()
    name = rules.reserve("value")
    items = sequence(Literal("["), optional(RuleReference(name)), Literal("]"))
    rules.fill(name, choice([items, Literal("a")]))
    grammar = rules.build(RuleReference(name))
    assert Completer(grammar).complete("[" * 5_000) == "]" * 5_000
    rules = GrammarBuilder()
    name = rules.reserve("rest")
    rules.fill(name, optional(sequence(Literal("a"), RuleReference(name))))
    grammar = rules.build(sequence(RuleReference(name), Literal(END)))
    assert Completer(grammar).complete("a" * 20_000) == END


def test_a_constant_of_thousands_of_parts_needs_no_deep_stack() -> None:
    parts = [Literal(f"{number}{END}") for number in range(2_000)]
    builder = GrammarBuilder()
    completer = Completer(builder.build(builder.define(sequence(*parts))))
    assert completer.complete("0;1;") == "".join(f"{n};" for n in range(2, 2_000))


def test_a_rule_that_may_be_empty_where_it_is_named_twice() -> None:
    rules = GrammarBuilder()
    blank = rules.define(optional(Literal("a")), "blank")
    grammar = rules.build(sequence(blank, blank, Literal(END)))
    for text in ("", "a", "aa"):
        assert Completer(grammar).complete(text) == END
    assert Completer(rules.build(EMPTY)).complete("") == ""


def test_an_empty_word_is_no_lexeme() -> None:
    words = choice([Literal(""), Literal("ab")])
    grammar = GrammarBuilder().build(sequence(Literal("("), words, Literal(")")))
    assert [Completer(grammar).complete(text) for text in ("", "(", "(a")] == ["()", ")", "b)"]


def test_special_tokens_have_no_half() -> None:
    rules = GrammarBuilder({"<end>": 300})
    free = rules.terminal(Pattern("(?s:.*)"), "FREE")
    grammar = rules.build(sequence(optional(free), rules.fixed("<end>")))
    assert Completer(grammar).complete("x<en") == "<end>"
    assert Completer(grammar).complete("x<end>") == ""
    completer = Completer(grammar)
    assert [completer.complete("x<end>"[:at]) for at in (3, 6, 5)] == ["<end>", "", "<end>"]


def test_a_search_that_takes_too_long_goes_on_in_pieces_and_ends() -> None:
    rules = GrammarBuilder()
    pattern = intersection(Pattern("[ab]*a[ab]{300}"), Pattern("[ab]*b[ab]{299}"))
    hard = Completer(rules.build(rules.terminal(pattern, "HARD"))).fork()
    spent = list[int]()
    for size in range(1, 100):
        with limit_steps(1_000_000) as account:
            assert hard.complete("a" * size) is None
        assert account.left is not None
        spent.append(1_000_000 - account.left)
    assert max(spent) < 2 * PIECE_STEPS
    assert sum(spent) < 2 * MAX_TURN_STEPS
    assert spent[-1] == 0, "it is given up"


def write_lists() -> Grammar:
    """Lists of lists of letters and strings, `([a,a],["x y"])`."""
    rules = GrammarBuilder()
    text = rules.terminal(Pattern('"[^"]*"'), "TEXT")
    item = choice([Literal("a"), text])
    inner = sequence(Literal("["), item, many(sequence(Literal(","), item)), Literal("]"))
    outer = sequence(Literal("("), inner, many(sequence(Literal(","), inner)), Literal(")"))
    return rules.build(sequence(outer, many(Literal(" ")), Literal(END)))


@pytest.mark.parametrize(
    ("text", "cycle", "departure"),
    [
        ("([a,a", ",a", "]"),
        ('([a,"a', '","a', '"'),
        ("([a],[a]", ",[a]", ")"),
        ('(["x x ', "x ", '"'),
        ('(["  ', "  ", '"'),
        ("([a])   ", " ", END),
        ('(["],[', "],[", '"'),
    ],
)
def test_a_departure_leaves_a_cycle(text: str, cycle: str, departure: str) -> None:
    assert Completer(write_lists()).find_departure(text, cycle) == departure


def test_a_departure_leaves_what_was_left_before() -> None:
    completer = Completer(write_lists())
    text = "([a,a],[a,a"
    assert completer.find_departure(text, ",a") == "]"
    assert completer.find_departure(text, ",a", since=[len("([a,a]")]) == "])"


def test_a_departure_leaves_at_most_so_much() -> None:
    completer = Completer(write_lists())
    text = "([a,a],[a,a"
    assert completer.find_departure(text, ",a", max_left=len(END)) == "])"
    assert completer.find_departure(text, ",a", max_left=0) == f"]){END}"
    assert completer.find_departure(text, ",a", max_left=99) == "]"


def test_cycles_that_the_grammar_ends_are_counted() -> None:
    rules = GrammarBuilder()
    word = rules.terminal(Pattern("b{0,9}"), "WORD")
    items = sequence(Literal("a"), Repeat(sequence(Literal(","), Literal("a")), 0, 7))
    completer = Completer(rules.build(sequence(items, Literal("."), word, Literal(END))))
    assert completer.count_cycles("a,a", ",a", 99) == 6
    assert completer.count_cycles("a,a", ",a", 7) == 6
    assert completer.count_cycles("a,a", ",a", 6) is None
    assert completer.count_cycles("a.b", "bb", 99) == 4
    assert Completer(write_lists()).count_cycles("([a,a", ",a", 200) is None


def test_nothing_departs_where_no_ending_is_known() -> None:
    rules = GrammarBuilder()
    pattern = intersection(Pattern("[ab]*a[ab]{300}"), Pattern("[ab]*b[ab]{299}"))
    assert Completer(rules.build(rules.terminal(pattern, "HARD"))).find_departure("aa", "a") is None
    assert Completer(rules.build(many(Literal("a")))).find_departure("aa", "a") == ""
