"""Whether another engine accepts the texts of a grammar of ours, and ours those of the engine."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from constrained.engine.llama_files import read_header
from constrained.engine.vocabulary.vocabulary import Tokenizer, Vocabulary, build_tokenizer
from constrained.mask.matcher import Matcher
from examples.random_model import load_small, with_markers, write_model
from grammars.wire.formats import FORMATS
from tests.agreement.matching import CLOSERS, Masked
from tests.grammars.emit.engine_reading import EngineReading
from tests.turn_strategies import mutate

ATOMS = (
    *dict.fromkeys(atom for format in FORMATS for atom in format.atoms),
    "<|return|>",  # beside this and the next one, `<|end|>` ends no turn for llama.cpp
    "<|call|>",
)
"""What formats write as special tokens, where the vocabulary has them."""


@dataclass(frozen=True)
class EngineVocabulary:
    """A real vocabulary, small enough to draw from.

    Args:
        path: of a GGUF file that has it.
        vocabulary: the same, read.
        tokenizer: for llguidance.
    """

    path: Path
    vocabulary: Vocabulary
    tokenizer: Tokenizer

    @property
    def drawn(self) -> list[int]:
        """The tokens that texts are drawn from: single characters, and markers that end no turn."""
        drawn: list[int] = []
        for token, data in enumerate(self.vocabulary.tokens):
            is_character = len(data) == 1 and data < b"\x80"
            if is_character or self.vocabulary.names.get(token) in ATOMS:
                drawn.append(token)
        return [token for token in drawn if token not in self.vocabulary.end]


def make_vocabulary(folder: Path, *, marked: bool) -> EngineVocabulary:
    """Returns the vocabulary of the small random model; `marked`: with every marker as one
    token."""
    tokens, markers = load_small(), ATOMS if marked else ()
    path = write_model(
        folder / f"{'marked' if marked else 'plain'}.gguf",
        with_markers(tokens, markers) if marked else tokens,
        None,
    )
    vocabulary = read_header(path).vocabulary
    return EngineVocabulary(path, vocabulary, build_tokenizer(vocabulary, markers))


@dataclass
class Agreement:
    """What came of texts that were drawn.

    Args:
        judged: how many, by where they are from.
        disputed: those that only one of the engines accepts, with what was expected of them.
    """

    judged: Counter[str] = field(default_factory=Counter[str])
    disputed: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def note(self, way: str, text: str, *, agreed: bool) -> None:
        """Counts a text."""
        self.judged[way] += 1
        if not agreed:
            self.disputed.append((way, text))


def compare(
    ours: Masked, theirs: EngineReading, drawn: Sequence[int], draw: random.Random, walks: int
) -> Agreement:
    """Draws texts from both sides, and near misses, and asks the other side about each.

    Args:
        ours: the grammar as llguidance holds it.
        theirs: what it was emitted as.
        drawn: the tokens that texts of the other engine may have in them.
        draw: the source of chance.
        walks: how many texts of each side.
    """
    agreement = Agreement()
    closers = [ours.encode(text) for text in (*ours.format.atoms, *CLOSERS)]
    for _ in range(walks):
        text = ours.walk(draw)
        if text is not None:
            judge(agreement, "ours", ours, theirs, text)
            for _ in range(3):
                judge(agreement, "near miss", ours, theirs, mutate(text, draw))
        tokens = theirs.walk(drawn, closers, draw)
        if tokens is not None:
            shown = ours.vocabulary.text(tokens).decode(errors="replace")
            agreement.note("theirs", shown, agreed=takes(ours, tokens))
    return agreement


def judge(agreement: Agreement, way: str, ours: Masked, theirs: EngineReading, text: str) -> None:
    """Asks both sides about a text; none about U+0000, which llama.cpp does not see."""
    if "\0" not in text:
        tokens = ours.encode(text)
        agreement.note(way, text, agreed=takes(ours, tokens) == theirs.accepts(tokens))


def takes(ours: Masked, tokens: Sequence[int]) -> bool:
    """Does our grammar take all of these tokens? Other engines read a special token also where text
    stands that spells it, as that text: so either reading counts."""
    readings = [ours.matcher.fork()]
    for token in tokens:
        spelled = ours.vocabulary.encode(ours.vocabulary.names.get(token, ""))
        following: list[Matcher] = []
        for reading in readings:
            for way in filter(None, ([token], spelled)):
                if reading.count_accepted(way) == len(way):
                    following.append(_go_on(reading, way))
        readings = following
    return any(reading.is_complete for reading in readings)


def _go_on(reading: Matcher, tokens: Sequence[int]) -> Matcher:
    after = reading.fork()
    for token in tokens:
        after.commit(token)
    return after
