"""Grammars and expressions whose masks, or whose endings, would take for ever."""

import llguidance
import pytest

from constrained.engine.protocol import Sampling
from constrained.engine.vocabulary.vocabulary import build_tokenizer, byte_vocabulary
from constrained.errors import GrammarError
from constrained.mask import matcher as mask
from constrained.mask.matcher import Matcher
from grammars.errors import Error
from server.errors import as_http_error
from tests.hostile.attacked import run_attack
from tests.scripted_model import wishing

VOCABULARY = byte_vocabulary()
TOKENIZER = build_tokenizer(VOCABULARY, ())
END = VOCABULARY.end[0]
AMBIGUOUS = {
    "two or three": 'start: x\nx: "a" | x x | x x x',
    "up to five": 'start: x\nx: "a" | x x | x x x | x x x x | x x x x x',
    "letters": "start: x\nx: /[a-z]/ | x x | x x x",
    "blanks": 'start: x y\nx: "a" | x x |\ny: x y x | "a"',
    "a right-recursive list": 'start: s\ns: "a" s | "a"',
}


def write(matcher: Matcher, text: bytes) -> None:
    for byte in text:
        matcher.commit(byte)
        matcher.compute_mask()
        matcher.forced()


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_an_ambiguous_grammar_fails_with_its_place(name: str):
    matcher = Matcher.compile(TOKENIZER, AMBIGUOUS[name], is_own=False, where="/grammar")
    with pytest.raises(GrammarError, match="too costly") as caught:
        write(matcher, b"a" * 3000)
    assert caught.value.where == "/grammar"
    assert as_http_error(caught.value).status == 400


def test_an_expression_of_too_many_states_fails_with_its_place(monkeypatch: pytest.MonkeyPatch):
    # The vocabulary of bytes has no tokens to need more; a real one does.
    limits = llguidance.LLParserLimits(verbose_errors=False, step_lexer_fuel=1_000)
    monkeypatch.setattr(mask, "USER_LIMITS", limits)
    matcher = Matcher.compile(
        TOKENIZER, "start: /(.*[aeiou].{3000}){3}/", is_own=False, where="/regex"
    )
    with pytest.raises(GrammarError, match="too costly") as caught:
        write(matcher, b"the quick brown fox jumps over the lazy dog " * 60)
    assert caught.value.where == "/regex"


def test_the_others_go_on_where_a_mask_fails():
    with wishing("a" * 3000, "plain", max_sequences=2) as model:
        victim = model.stream("hi", max_tokens=200, sampling=Sampling(temperature=0))
        events = iter(victim)
        next(events)  # it is under way
        with pytest.raises(GrammarError, match="too costly"):
            model.generate("hi", grammar=AMBIGUOUS["two or three"], max_tokens=2000)
        assert len([*events]) > 100
        assert victim.result.finish_reason == "length"


ENDLESS = [
    "(a|b)*a(a|b){1000}",
    "[ab]*a[ab]{200}",
    "(.*[aeiou].{300}){3}",
    "(a?){40}a{40}",
    "((a|b)*a(a|b){12}c)*(.*x.{14}){3}",
    "(([ab]{0,30}c?){0,30}d?){30}",
]
GENERATE = """
import sys
from grammars.errors import Error
from tests.hostile.attacked import run_attack
from tests.scripted_model import wishing
with wishing("ab" * 200) as model:
    for regex in sys.argv[1:]:
        victim = model.stream("hi", max_tokens=20)
        try:
            model.generate("hi", regex=regex, max_tokens=150)
            print("text")
        except Error as e:
            print(type(e).__name__)
        assert len([*victim]) > 10
"""


def test_an_ending_is_not_searched_for_ever():
    done = run_attack(GENERATE, ENDLESS)
    assert done.returncode == 0, done.stderr[-2000:]
    outcomes = done.stdout.split()
    assert len(outcomes) == len(ENDLESS)
    assert set(outcomes) <= {"text", "ReplyError", "TokenLimitError", "GrammarError"}


BROKEN = {
    "a rule that is not there": "root ::= missing",
    "an open group": 'root ::= ("a"',
    "an open class": "root ::= [a-",
    "no root": 'start ::= "a"',
    "a text without an end": 'root ::= "a',
    "a special token that is not there": "start: <|im_end|>",
    "a token that ends the turn": f'start: "0" <[{END}]>',
    "a token that ends the turn in the middle": f'start: /[0-9;]/ <[{END}]> "x"',
    "no grammar": "???",
    "too many alternatives": "start: " + " | ".join(f'"{n}"' for n in range(70_000)),
    "alternatives that are too many at once": (
        "start: x*\nx: " + " | ".join(f'"{n};"' for n in range(2_000))
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_grammar_is_an_error_of_the_request(name: str):
    with wishing("0;1;2;3;") as model:
        with pytest.raises(Error) as caught:
            model.generate("hi", grammar=BROKEN[name], max_tokens=20)
        assert as_http_error(caught.value).status == 400, caught.value
