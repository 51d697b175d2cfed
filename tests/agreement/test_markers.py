"""Markers are structure: what spells one as text never passes for it, and free text has none."""

import json
import random
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from constrained.engine.vocabulary.vocabulary import Tokenizer, Vocabulary
from grammars.schema.lowering.lower import lower
from grammars.turn import Answer, ChoiceAnswer, JsonAnswer, Policy, RegexAnswer, State, Tool
from grammars.turn_grammar.turn import build_grammar
from grammars.wire.format import Format
from tests.agreement.case_checks import QUIET, by_name
from tests.agreement.chosen_formats import SIMPLE
from tests.agreement.expected_markers import Place
from tests.agreement.matching import Masked
from tests.agreement.real_vocabularies import marked
from tests.agreement.sample_tools import offers
from tests.text_strategies import FRAGMENTS
from tests.turn_strategies import policies, seeds, states

PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|/(?:[^/\\]|\\.)*/')
ANSWERS: tuple[Answer | None, ...] = (
    None,
    JsonAnswer(lower({"type": "object", "properties": {"a": {"type": "string"}}})),
    RegexAnswer("[a-z]+"),
    ChoiceAnswer(("yes", "no")),
)
STEPS = 30


@st.composite
def requests(draw: st.DrawFn, format: Format) -> tuple[Format, tuple[Tool, ...], Policy, State]:
    """A format, tools, a policy and a start state."""
    tools = tuple(tool for tool, _ in draw(offers()))
    state = draw(states(format))
    policy = draw(policies([tool.name for tool in tools], format, state))
    return format, tools, policy, state


class Walk:
    """A random turn, and what its mask says at every place."""

    def __init__(self, grammar: Masked, place: Place, rng: random.Random):
        self.grammar, self.place, self.rng = grammar, place, rng
        self.vocabulary = grammar.vocabulary
        self.matcher = grammar.matcher.fork()
        self.markers = {token: marker for marker, token in grammar.ids.items()}
        special = self.vocabulary.control | set(self.vocabulary.end) | set(self.markers)
        self.special = np.array(sorted(special))
        self.free = 0  # places of free text that were looked at

    def run(self) -> None:
        for _ in range(STEPS):
            if self.matcher.is_finished:
                return
            mask = self.matcher.mask()
            self.check(mask)
            for token in self._choose(mask):
                if not self.matcher.count_accepted([token]) or self.matcher.ends(token):
                    break
                self.matcher.commit(token)
                self.place.commit(self.vocabulary.tokens[token], self.markers.get(token))

    def check(self, mask: np.ndarray) -> None:
        """The special tokens of the mask are those that the format has there."""
        allowed = {int(token) for token in self.special[mask[self.special]]}
        ends = {token for token in allowed if self.matcher.ends(token)}
        named = {self.markers[token] for token in allowed - ends}
        wanted = self.place.next()
        where = (self.place.text, self.place.seen, self.place.thinking, self.grammar.grammar)
        assert named <= wanted.markers, where
        assert wanted.end or not ends, where
        if not self.place.is_free:
            return
        self.free += 1
        if wanted.exact:
            assert (named, bool(ends)) == (wanted.markers, wanted.end), where
        for marker in self.grammar.format.markers:
            assert not self._passes(marker), (marker, *where)

    def _passes(self, marker: str) -> bool:
        """Can the marker be spelled here with ordinary tokens, from here or from what is there?"""
        data = marker.encode()
        begun = [n for n in range(len(data)) if self.place.text.endswith(data[:n])]
        spelled = (self.vocabulary.encode(marker[n:]) for n in begun)
        return any(self.matcher.count_accepted(tokens) == len(tokens) for tokens in spelled)

    def _choose(self, mask: np.ndarray) -> list[int]:
        if self.rng.random() < 0.4:
            return self.vocabulary.encode(self._piece())
        allowed = np.flatnonzero(mask)
        named = [token for token in self.markers if mask[token]]
        if named and self.rng.random() < 0.1:
            return [self.rng.choice(named)]
        return [int(self.rng.choice(allowed))]

    def _piece(self) -> str:
        """Text that is easily got wrong: often the beginning of a marker or tag."""
        tag = self.rng.choice(self.grammar.format.reserved or FRAGMENTS)
        return self.rng.choice(
            [tag[: self.rng.randint(1, len(tag))], *self.rng.sample(FRAGMENTS, 2)]
        )


def walk_turns(
    request: tuple[Format, tuple[Tool, ...], Policy, State],
    seed: int,
    turns: int,
    real: tuple[Vocabulary, Tokenizer] | None = None,
) -> None:
    format, tools, policy, state = request
    grammar = Masked(format, tools, policy, state, single=True, real=real)
    rng = random.Random(seed)
    for _ in range(turns):
        walk = Walk(grammar, Place(format, policy, state, bool(policy.select(tools))), rng)
        walk.run()
        event(f"free text at {min(walk.free, 3)} places")


@SIMPLE
@settings(QUIET, max_examples=40)
@given(data=st.data())
def test_free_text_has_no_marker_but_what_may_follow(name: str, data: st.DataObject) -> None:
    walk_turns(data.draw(requests(by_name(name))), data.draw(seeds()), 5)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> tuple[Vocabulary, Tokenizer]:
    return marked(tmp_path_factory.mktemp("model"))


@SIMPLE
@settings(QUIET, max_examples=9)
@given(data=st.data())
def test_free_text_of_a_real_vocabulary_has_no_other_marker(
    name: str, real: tuple[Vocabulary, Tokenizer], data: st.DataObject
) -> None:
    walk_turns(data.draw(requests(by_name(name))), data.draw(seeds()), 3, real)


@SIMPLE
@settings(QUIET, max_examples=25)
@given(data=st.data())
def test_no_literal_spells_a_marker(name: str, data: st.DataObject) -> None:
    format, tools, policy, state = data.draw(requests(by_name(name)))
    ids = {marker: 300 + n for n, marker in enumerate(format.markers)}
    for answer in ANSWERS:
        if answer is not None and format.bare is not None and policy.select(tools):
            continue  # the format may refuse an answer beside calls
        asked = replace(policy, answer=answer)
        grammar = build_grammar(format, tools, asked, state, ids)
        written = [json.loads(piece) for piece in PIECE.findall(grammar) if piece[0] == '"']
        assert not [text for text in written if any(m in text for m in format.markers)]
        named = re.findall(r"<\[(\d+)\]>", PIECE.sub("", grammar))
        assert {int(token) for token in named} <= set(ids.values())
        assert "<[" not in PIECE.sub("", build_grammar(format, tools, asked, state))
