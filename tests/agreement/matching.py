"""What llguidance says to a text, over the vocabulary of bytes."""

import random
from collections.abc import Sequence

import numpy as np

from constrained.engine.vocabulary.vocabulary import Tokenizer, Vocabulary
from constrained.inspect.replay.replay_context import byte_tokenizer
from constrained.mask.matcher import Matcher
from grammars.turn import Policy, State, Tool
from grammars.turn_grammar.ir.completion import Completer
from grammars.turn_grammar.turn import build_grammar
from grammars.wire.format import Format

CLOSERS = ('"', "}", "]", "</think>", "\n</parameter>\n</function>", "\n</parameter>\n<parameter=")


class Masked:
    """The grammar of a request; markers as text, or as single tokens.

    `real` is a vocabulary other than that of bytes, and its tokenizer.
    """

    def __init__(
        self,
        format: Format,
        tools: Sequence[Tool],
        policy: Policy,
        state: State,
        single: bool = False,
        real: tuple[Vocabulary, Tokenizer] | None = None,
    ):
        self.format = format
        self.vocabulary, tokenizer = real or byte_tokenizer(format.atoms if single else ())
        self.ids = self.vocabulary.find_markers(format.texts)
        self.grammar = build_grammar(format, tools, policy, state, self.ids)
        self.matcher = Matcher.compile(tokenizer, self.grammar)

    def encode(self, text: str) -> list[int]:
        return self.vocabulary.encode_marked(text, self.ids)

    def accepts(self, text: str) -> bool:
        """Does the grammar take all of the text, and may the turn end there?"""
        tokens = self.encode(text)
        matcher = self.matcher.fork()
        if matcher.count_accepted(tokens) < len(tokens):
            return False
        for token in tokens:
            matcher.commit(token)
        return matcher.is_complete

    def prefix(self, text: str) -> str:
        """As much of the text as the grammar takes."""
        tokens = self.encode(text)
        taken = tokens[: self.matcher.fork().count_accepted(tokens)]
        return self.vocabulary.text(taken).decode(errors="replace")

    def walk(self, rng: random.Random, start: str = "", steps: int = 400) -> str | None:
        """A random text of this grammar that begins with `start`; None if it finds no end."""
        matcher = self.matcher.fork()
        tokens = self.encode(start)
        tokens = tokens[: matcher.count_accepted(tokens)]
        for token in tokens:
            matcher.commit(token)
        patience = rng.randint(0, 60)
        for step in range(steps):
            if matcher.is_finished or (matcher.is_complete and rng.random() < 0.4):
                return self.vocabulary.text(tokens).decode()
            for token in self._step(matcher, rng, step > patience):
                matcher.commit(token)
                tokens.append(token)
        return None

    def _step(self, matcher: Matcher, rng: random.Random, hurry: bool) -> list[int]:
        if hurry or rng.random() < 0.1:
            for closer in CLOSERS if hurry else rng.sample(CLOSERS, len(CLOSERS)):
                tokens = self.encode(closer)
                if matcher.count_accepted(tokens) == len(tokens):
                    return tokens
        allowed = np.flatnonzero(matcher.mask()).tolist()
        allowed = [t for t in allowed if not matcher.ends(t)]
        printable = [t for t in allowed if t < 128 or t > 255]
        return [rng.choice(printable if printable and rng.random() < 0.9 else allowed)]


def completed(grammar: Masked, completer: Completer, text: str) -> str | None:
    """The whole turn, taken by the mask; None where the mask does not take its beginning."""
    tokens = grammar.encode(text)
    matcher = grammar.matcher.fork()
    if matcher.count_accepted(tokens) < len(tokens):
        return None
    rest = completer.complete(text)
    assert rest is not None, (text, grammar.grammar)
    tokens += grammar.encode(rest)
    assert matcher.count_accepted(tokens) == len(tokens), (text, rest, grammar.grammar)
    for token in tokens:
        matcher.commit(token)
    assert matcher.is_complete, (text, rest, grammar.grammar)
    return text + rest
