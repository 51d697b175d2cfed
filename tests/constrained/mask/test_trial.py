"""Grammars of clients are compiled on trial."""

import time

import pytest

from constrained.engine.vocabulary.vocabulary import byte_vocabulary
from constrained.errors import GrammarError
from constrained.limits.kept_process import NoProcessError
from constrained.mask import trial
from constrained.mask.trial import TrialError, read_gbnf, try_grammar
from constrained.model.compile.compiler import Compiler
from constrained.prompt.template.chat_template import ChatTemplate
from grammars.turn import GrammarAnswer
from tests.templates import HERMES

EXPLODES = "start: T\nT: /(.*a.{21})/ & /(.*b.{20})/ & ~/(.*c.{20})/"
VOCABULARY = byte_vocabulary(["<tool_call>", "</tool_call>"])


def test_a_grammar_that_never_compiles_is_refused() -> None:
    """It took more than 90 seconds and 3.4 GB."""
    compiler = Compiler(VOCABULARY, ChatTemplate(HERMES))
    begun = time.process_time()
    with pytest.raises(GrammarError, match=r"takes (more|too much)") as e:
        compiler.compile_text("Hi", GrammarAnswer(EXPLODES))
    assert e.value.where == "/grammar"
    assert time.process_time() - begun < 1  # of this process


def test_tokens_that_a_grammar_names_are_those_of_the_vocabulary() -> None:
    named = {token: name for token, name in VOCABULARY.names.items() if token != 256}
    [token, *_] = named
    try_grammar(f'start: "a" <[{token}]> "b"', VOCABULARY, [token])
    try_grammar(f'start: "a" {named[token]} "b"', VOCABULARY, [token])
    with pytest.raises(TrialError, match="nothing"):
        try_grammar("start: <nothing>", VOCABULARY, [token])


@pytest.mark.parametrize("grammar", ["start: /(/", "start: missing", ""])
def test_what_llguidance_refuses_is_refused(grammar: str) -> None:
    with pytest.raises(TrialError, match="the grammar is not valid: "):
        try_grammar(grammar, VOCABULARY, [])


@pytest.mark.parametrize(
    ("grammar", "reason"),
    [
        ('start: %json {"type": "number", "multipleOf": 2147483647}', "fuel exhausted"),
        ('start: %json {"multipleOf": 1e-300}', "multipleOf"),
    ],
)
def test_grammars_of_users_are_no_larger_than_they_look(grammar: str, reason: str) -> None:
    with pytest.raises(TrialError, match=reason):
        try_grammar(grammar, VOCABULARY, [])


def test_gbnf() -> None:
    assert read_gbnf('root ::= "a" | [b-c]+').strip().startswith('start: "a"')
    with pytest.raises(GrammarError, match=r"^the GBNF grammar is not valid: .*missing"):
        read_gbnf("root ::= missing")
    with pytest.raises(GrammarError, match="nested too deeply"):
        read_gbnf("root ::= " + "(" * 5_000 + '"a"' + ")" * 5_000)


def test_what_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "SECONDS", 0.1)  # fast machines do the rest of it in 3 seconds
    with pytest.raises(TrialError, match=r"takes more than 0\.1 seconds"):
        try_grammar("start: " + "|".join(['"a"'] * 40_000), VOCABULARY, [])
    rules = "".join(f'r{i} ::= r{i + 1} "a"\n' for i in range(4_000))
    with pytest.raises(GrammarError, match=r"takes more than 0\.1 seconds"):
        read_gbnf(f'root ::= r0\n{rules}r4000 ::= "b"\n')


def test_without_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise NoProcessError("there is no Python to start")

    monkeypatch.setattr(trial._PROCESSES, "ask", fail)
    try_grammar('start: "a"', VOCABULARY, [])
    assert read_gbnf('root ::= "a"')
