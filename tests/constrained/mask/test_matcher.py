import threading
from dataclasses import replace

import llguidance
import numpy as np
import pytest

from constrained.engine.vocabulary.vocabulary import build_tokenizer, byte_vocabulary
from constrained.errors import GrammarError
from constrained.mask.matcher import Matcher

MARKERS = ["<think>", "</think>", "<tool_call>"]
VOCABULARY = byte_vocabulary(MARKERS)
TOKENIZER = build_tokenizer(VOCABULARY, MARKERS)
END = VOCABULARY.end[0]
ANY_TEXT = "start: /(?s:.*)/"


def compile(grammar: str) -> Matcher:
    return Matcher.compile(TOKENIZER, grammar)


def allowed(matcher: Matcher) -> set[int]:
    return set(np.flatnonzero(matcher.mask()).tolist())


def commit(matcher: Matcher, text: str) -> None:
    for token in VOCABULARY.encode(text):
        matcher.commit(token)


def test_mask_of_bytes():
    matcher = compile('start: "a" | "bc" | /[0-9]+/')
    assert allowed(matcher) == set(b"ab0123456789")
    matcher.commit(ord("7"))
    assert allowed(matcher) == {*b"0123456789", END}
    assert matcher.is_complete
    assert not matcher.is_finished


def test_text_never_has_markers_padding_or_invalid_utf8():
    names = {**VOCABULARY.names, 300: "[unused]"}
    padding = [b""] * (301 - len(VOCABULARY.tokens))
    padded = replace(VOCABULARY, tokens=(*VOCABULARY.tokens, *padding), names=names)
    matcher = Matcher.compile(build_tokenizer(padded, MARKERS), ANY_TEXT)
    tokens_allowed = allowed(matcher)
    assert len(matcher.mask()) == 301
    assert max(tokens_allowed) == END
    assert 0xFF not in tokens_allowed
    assert {*range(0x80)} <= tokens_allowed


def test_a_grammar_does_not_end_the_turn_before_its_own_end():
    matcher = compile(f'start: "a" (<[{END}]> | "b")')
    matcher.commit(ord("a"))
    assert allowed(matcher) == {ord("b")}
    matcher.commit(ord("b"))
    assert allowed(matcher) == {END}


def test_a_grammar_that_can_only_end_early_fails_with_its_place():
    text = f'start: "a" <[{END}]>'
    matcher = Matcher.compile(TOKENIZER, text, is_own=False, where="/grammar")
    matcher.commit(ord("a"))
    with pytest.raises(GrammarError, match="which ends the turn") as caught:
        matcher.mask()
    assert caught.value.where == "/grammar"


def test_apply_forbids_in_place():
    matcher = compile('start: "a" | "b"')
    logits = np.arange(len(VOCABULARY.tokens), dtype=np.float32)
    assert matcher.apply(logits) is None
    assert set(np.flatnonzero(logits > -np.inf)) == set(b"ab")
    assert logits[ord("b")] == ord("b")


def test_apply_tells_the_only_token():
    for text in "a\x00\x07\x08é":
        matcher = compile(f"start: {_quoted(text)}")
        for byte in text.encode():
            logits = np.zeros(len(VOCABULARY.tokens), np.float32)
            assert matcher.apply(logits) == byte
            assert logits[byte] == 0
            assert np.isneginf(np.delete(logits, byte)).all()
            matcher.commit(byte)
        assert matcher.apply(np.zeros(len(VOCABULARY.tokens), np.float32)) == END


def _quoted(text: str) -> str:
    return '"' + "".join(f"\\x{ord(c):02x}" if c < " " else c for c in text) + '"'


def test_commit_to_the_end():
    matcher = compile('start: "ab"')
    commit(matcher, "a")
    assert not matcher.is_complete
    with pytest.raises(GrammarError, match=f"token {END} is not allowed"):
        matcher.commit(END)
    commit(matcher, "b")  # a refused end leaves the matcher as it was
    assert matcher.is_complete
    assert matcher.is_finished
    assert allowed(matcher) == {END}
    assert matcher.ends(END)
    assert not matcher.ends(ord("a"))
    matcher.commit(END)
    assert matcher.is_finished


@pytest.mark.parametrize("token", [ord("x"), 258, -1, 100_000])
def test_a_refused_token_is_an_error(token: int):
    matcher = compile('start: "ab"')
    with pytest.raises(GrammarError, match=f"token {token} is not allowed here"):
        matcher.commit(token)


def test_a_failed_matcher_looks_finished_to_llguidance_but_not_to_us():
    matcher = compile('start: "ab"')
    with pytest.raises(GrammarError):
        commit(matcher, "x")
    assert matcher._inner.is_stopped()
    calls = [
        matcher.mask,
        matcher.forced,
        lambda: matcher.commit(END),
        lambda: matcher.count_accepted([END]),
        lambda: matcher.is_complete,
        lambda: matcher.is_finished,
        matcher.fork().mask,
    ]
    for call in calls:
        with pytest.raises(GrammarError, match="doesn't satisfy the grammar"):
            call()


@pytest.mark.parametrize(
    ("grammar", "message"),
    [
        ('start: "ab', "lexer error"),
        ("start: x", 'unknown name: "x"'),
        ('start: %json {"type": "nonsense"}', "Invalid type: nonsense"),
        ('start: A "x"\nA: /b/ & /c/', "NoExtensionBias"),
    ],
)
def test_bad_grammars(grammar: str, message: str):
    with pytest.raises(GrammarError, match="the grammar") as caught:
        compile(grammar)
    assert message in str(caught.value)
    assert "non-verbose" not in str(caught.value)


def test_warnings_are_kept():
    assert compile('start: "a"').warnings == []
    lenient = '{"type": "object", "x-guidance": {"lenient": true}, "not": {"required": ["a"]}}'
    assert compile(f"start: %json {lenient}").warnings != []


def test_fork_is_independent():
    matcher = compile("start: /[ab]{2}/")
    fork = matcher.fork()
    commit(fork, "ab")
    assert fork.is_finished
    assert allowed(matcher) == set(b"ab")
    assert not matcher.is_complete


def test_forced_tokens_are_not_consumed():
    matcher = compile('start: "hello" ("a" | "b")')
    assert VOCABULARY.text(matcher.forced()) == b"hello"
    assert VOCABULARY.text(matcher.forced()) == b"hello"
    commit(matcher, "hello")
    assert matcher.forced() == []
    commit(matcher, "a")
    assert matcher.forced() == []


def test_accepts_counts_and_changes_nothing():
    matcher = compile('start: "ab" /[0-9]*/')
    assert matcher.count_accepted(b"ab12") == 4
    assert matcher.count_accepted(b"abx2") == 2
    assert matcher.count_accepted([ord("a"), 10**6, ord("b")]) == 1
    assert matcher.count_accepted([-1]) == 0
    assert matcher.count_accepted([]) == 0
    assert allowed(matcher) == {ord("a")}


def test_markers_are_not_text():
    think, close = VOCABULARY.encode_special("<think></think>")
    matcher = compile(f'start: <[{think}]> "\\n" /(?s:.*)/ <[{close}]>')
    assert matcher.forced() == [think, ord("\n")]
    matcher.commit(think)
    commit(matcher, "\n")
    assert close in allowed(matcher)
    assert think not in allowed(matcher)
    commit(matcher, "a</think>")  # spelled, it is text
    matcher.commit(close)
    assert matcher.is_finished


def test_a_marker_within_a_constant_is_text():
    matcher = compile('start: %json {"const": "a </think> b"}')
    assert VOCABULARY.text(matcher.forced()) == b'"a </think> b"'
    for token in matcher.forced():
        matcher.commit(token)
    assert matcher.is_finished


def test_a_mask_is_computed_in_a_thread():
    matcher = compile("start: /[ab]*/")
    commit(matcher, "a")
    thread = threading.Thread(target=matcher.compute_mask)
    thread.start()
    thread.join()
    assert allowed(matcher) == {*b"ab", END}


def test_masks_equal_those_of_llguidance():
    grammar = 'start: %json {"type": "object", "properties": {"a": {"type": "integer"}}}'
    matcher = compile(grammar)
    other = llguidance.LLMatcher(llguidance.LLTokenizer("byte"), grammar)
    for byte in b'{"a": -12}':
        theirs = np.frombuffer(other.compute_bitmask(), np.uint8)
        bits = np.unpackbits(theirs, bitorder="little")[:256]
        assert (matcher.mask()[:256] == bits.astype(bool)).all()
        matcher.commit(byte)
        assert other.consume_token(byte)
    assert matcher.is_finished


def compile_of_user(grammar: str) -> Matcher:
    return Matcher.compile(TOKENIZER, grammar, is_own=False, where="/grammar")


def test_a_grammar_of_a_user_that_leads_nowhere_is_their_mistake() -> None:
    grammar = 'start: A "x"\nA: /b/ & /c/'
    with pytest.raises(GrammarError, match="nothing can follow") as caught:
        compile_of_user(grammar)
    assert caught.value.where == "/grammar"
    with pytest.raises(GrammarError) as caught:
        compile(grammar)
    assert caught.value.where is None


def test_a_long_text_is_judged_with_the_costs_of_generation():
    """llguidance limits the work between two masks, of which a turn has one for each token."""
    body = r"([^\"\\]|\\[\"\\nt]){0,}[^\"\\ ]([^\"\\]|\\[\"\\nt]){0,}"
    matcher = compile(rf'start: TEXT{chr(10)}TEXT: /"{body}"/ & /"([^"\\]|\\["\\nt]){{0,2100}}"/')
    for text in ("k" * 2_100, "é" * 2_100, " " * 2_000 + "k"):
        tokens = VOCABULARY.encode(f'"{text}"')
        assert matcher.count_accepted(tokens) == len(tokens)
        assert matcher.fork().try_commit(tokens)
    tokens = VOCABULARY.encode(f'"{"k" * 2_101}"')
    assert matcher.count_accepted(tokens) == len(tokens) - 2
