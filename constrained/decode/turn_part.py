"""The interface of the parts of a turn decoder: rules beside the grammar, each in its own module.

The decoder asks all parts at the same places of its loop:

    steer          the mask is applied, the sampler has not drawn yet
    before_commit  tokens are chosen, the matcher has not seen them yet
    after_commit   the matcher has taken them, the turn does not have them yet
    after_take     the turn has a token more, whose text may not be written yet
    after_write    its text is written
    insert         the turn can go on with tokens that nobody asks the model about
    rewind         the turn has been cut to its first tokens, to be written differently

Where another device decodes, the text of tokens is written behind the start of the next decode. So
two more hooks tell what a part needs when:

    needs_text     what comes before the next decode depends on text that is not written yet
    prepare        all is written, the model still decodes: what `steer` would have to find out
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from constrained.mask import Matcher
from constrained.vocabulary.vocabulary import Vocabulary


@dataclass(frozen=True)
class TurnProgress:
    """The progress of a turn: enough to look for its ending.

    Args:
        matcher: behind its tokens.
        count: of its tokens.
        text: the bytes of the turn, those of an assistant prefix included.
        rest: the bytes that token healing demands next.
    """

    matcher: Matcher
    count: int
    text: bytes
    rest: bytes = b""


class TranscriptView(Protocol):
    """The tokens that are written, and what was read in them: of a `Transcript`."""

    @property
    def tokens(self) -> Sequence[int]: ...

    @property
    def data(self) -> bytearray: ...

    @property
    def is_healing(self) -> bool: ...

    @property
    def is_reasoning(self) -> bool: ...

    @property
    def reasoning_tokens(self) -> int: ...

    @property
    def is_in_call(self) -> bool: ...

    @property
    def output_start(self) -> int: ...

    def find_place(self) -> str: ...

    def measure(self, matcher: Matcher, tokens: Sequence[int] = ()) -> TurnProgress: ...


class TurnView(Protocol):
    """The turn under way, as its parts see it."""

    @property
    def vocabulary(self) -> Vocabulary: ...

    @property
    def matcher(self) -> Matcher | None:
        """The grammar, behind all committed tokens; None: the turn is free text."""
        ...

    @property
    def limit(self) -> int:
        """The number of tokens that the turn may have."""
        ...

    @property
    def count(self) -> int:
        """The number of tokens that it has, those included whose text is not written yet."""
        ...

    @property
    def transcript(self) -> TranscriptView: ...


class TurnPart:
    """One rule of a turn, with the state that it needs. It overrides the hooks that concern it.

    Every hook may raise GrammarError, which ends the request: no rule is ever dropped silently.

    Attributes:
        name: what a trace calls it.
    """

    name: ClassVar[str] = "rule"

    def steer(self, logits: np.ndarray, turn: TurnView) -> None:
        """Forbids tokens, in place, that the mask has left."""

    def forbids(self, turn: TurnView) -> bool:
        """True if `steer` may forbid something here. A part that has the one has the other."""
        return False

    def before_commit(self, tokens: Sequence[int], turn: TurnView) -> None:
        """Looks at tokens that the turn is about to take."""

    def after_commit(self, tokens: Sequence[int], turn: TurnView) -> bool:
        """True if the turn may have the tokens that the matcher has taken; else it ends in
        front of them."""
        return True

    def needs_text(self, turn: TurnView, coming: int) -> bool:
        """True if the part looks at the text of the turn before the model is asked again.

        Args:
            turn: has tokens whose text is not written yet.
            coming: so many tokens are about to follow; 0: the turn looks for tokens that need no
                logits.
        """
        return False

    def prepare(self, turn: TurnView) -> None:
        """Does in advance what `steer` would have to; perhaps in another thread."""

    def after_take(self, token: int, *, is_forced: bool, is_computed: bool) -> None:
        """Takes note of a token of the turn, whose text may not be written yet.

        Args:
            token: the one that was taken.
            is_forced: it was not drawn.
            is_computed: it was drafted, and the KV cache has it already.
        """

    def after_write(self, token: int) -> None:
        """Takes note of a token of the turn, whose text is written."""

    def insert(self, turn: TurnView) -> Sequence[int]:
        """Tokens that the turn has to go on with, if any."""
        return ()

    def rewind(self, count: int) -> None:
        """The turn has only its first `count` tokens now."""
