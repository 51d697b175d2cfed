"""The interface of the parts of a turn decoder: rules beside the grammar, each in its own module.

The decoder calls these hooks of all parts, at these places of its loop:

    forbids        may `steer` forbid a token here? if no part may, a greedy turn needs no mask
    steer          after the mask is applied, before the sampler samples
    before_commit  after tokens are chosen, before the matcher commits them
    after_commit   after the matcher has committed them, before the turn takes them
    after_take     after the turn has taken a token; its text may not be written yet
    after_write    after the text of a token is written
    insert         where the turn can continue with tokens that the model need not predict
    rewind         after the turn was cut to its first tokens, to be generated differently

If another device decodes, the text of tokens is written while the next decode runs. Two more hooks
are for that:

    needs_text     does the part have to see the text before the next decode?
    prepare        while the model decodes, with all text written: computes what `steer` will need
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.mask.matcher import Matcher


@dataclass(frozen=True)
class TurnProgress:
    """The progress of a turn: all that is needed to find its shortest ending.

    Args:
        matcher: has committed the tokens of the turn.
        count: the number of tokens.
        text: the bytes of the turn, including those of an assistant prefix.
        rest: the bytes that have to come next (token healing).
    """

    matcher: Matcher
    count: int
    text: bytes
    rest: bytes = b""


class TranscriptView(Protocol):
    """What parts see of a `Transcript`: the written tokens, and what was read in their text."""

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
    """What parts see of a `TurnState`."""

    @property
    def vocabulary(self) -> Vocabulary: ...

    @property
    def matcher(self) -> Matcher | None:
        """The matcher, after all committed tokens; None: the turn is free text."""
        ...

    @property
    def limit(self) -> int:
        """The maximum number of tokens of the turn."""
        ...

    @property
    def count(self) -> int:
        """The number of tokens so far, including those whose text is not written yet."""
        ...

    @property
    def transcript(self) -> TranscriptView: ...


class TurnPart:
    """One rule of a turn, with the state that it needs. A subclass overrides the hooks it needs.

    Every hook may raise GrammarError, which ends the request: no rule is ever dropped silently.

    Attributes:
        name: the name of the part in traces.
    """

    name: ClassVar[str] = "rule"

    def steer(self, logits: np.ndarray, turn: TurnView) -> None:
        """Forbids, in place, tokens that the mask allows."""

    def forbids(self, turn: TurnView) -> bool:
        """True if `steer` may forbid a token here. A part overrides both or neither."""
        return False

    def before_commit(self, tokens: Sequence[int], turn: TurnView) -> None:
        """Sees tokens that the turn is about to take."""

    def after_commit(self, tokens: Sequence[int], turn: TurnView) -> bool:
        """Returns True if the turn may take the tokens; otherwise it ends before them."""
        return True

    def needs_text(self, turn: TurnView, coming: int) -> bool:
        """True if the part has to see the text of all tokens before the next decode.

        Args:
            turn: has tokens whose text is not written yet.
            coming: the number of tokens that are about to be taken; 0: the turn is looking for
                tokens that need no logits.
        """
        return False

    def prepare(self, turn: TurnView) -> None:
        """Computes in advance what `steer` will need; perhaps in another thread."""

    def after_take(self, token: int, *, is_forced: bool, is_computed: bool) -> None:
        """Notes a token of the turn, whose text may not be written yet.

        Args:
            is_forced: it was not sampled.
            is_computed: it was drafted, so the KV cache already has it.
        """

    def after_write(self, token: int) -> None:
        """Notes a token of the turn whose text is written."""

    def insert(self, turn: TurnView) -> Sequence[int]:
        """Returns the tokens that the turn has to continue with, if any."""
        return ()

    def rewind(self, count: int) -> None:
        """Notes that the turn was cut to its first `count` tokens."""


class TurnParts:
    """The hooks of the parts of one turn, as bound methods, in the order of the parts.

    A turn calls most hooks for each token, and a part overrides only some of them. Those that do
    nothing are left out.

    Args:
        parts: in the order in which they steer.

    Attributes:
        steering: the parts with a hook `steer`. All other attributes are named after their hook.
    """

    def __init__(self, parts: Sequence[TurnPart]):
        def having(hook: str) -> list[TurnPart]:
            inherited = getattr(TurnPart, hook)
            return [part for part in parts if getattr(type(part), hook) is not inherited]

        self.steering = having("steer")
        self.forbids = [part.forbids for part in having("forbids")]
        self.before_commit = [part.before_commit for part in having("before_commit")]
        self.after_commit = [part.after_commit for part in having("after_commit")]
        self.needs_text = [part.needs_text for part in having("needs_text")]
        self.prepare = [part.prepare for part in having("prepare")]
        self.after_take = [part.after_take for part in having("after_take")]
        self.after_write = [part.after_write for part in having("after_write")]
        self.insert = [part.insert for part in having("insert")]
        self.rewind = [part.rewind for part in having("rewind")]
