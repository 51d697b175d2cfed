"""The interface of the parts of a turn: rules beside the grammar, each in its own module.

A turn calls these hooks of all parts, at these places of its loop:

    forbids     may `steer` forbid a token here? if no part may, a greedy turn needs no mask
    steer       after the mask is applied, before the sampler samples
    admits      before the matcher commits tokens: may the turn take them?
    after_take  after the turn has taken a token and written its text
    react       after that: the text may end the turn, or change it
    insert      where the turn can continue with tokens that the model need not predict
    rewind      after the turn was cut to its first tokens, to be generated differently
    report      when the turn is over

`parts.table` lists all parts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar

import numpy as np

from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.mask.matcher import Matcher


@dataclass(frozen=True)
class TurnProgress:
    """The progress of a turn: all that is needed to find its shortest ending.

    Args:
        text: the bytes of the turn, including those of an assistant prefix.
        rest: the bytes that have to come next (token healing).
    """

    matcher: Matcher
    count: int
    text: bytes
    rest: bytes = b""


class TranscriptView(Protocol):
    """What parts see of a `Transcript`: the written tokens, and what was read in their text."""

    tokens: list[int]
    data: bytearray
    is_healing: bool
    is_reasoning: bool
    reasoning_tokens: int
    is_in_call: bool
    output_start: int

    def find_place(self) -> str: ...

    def measure(self, matcher: Matcher, tokens: Sequence[int] = ()) -> TurnProgress: ...


class TurnView(Protocol):
    """What parts see of a `RunningTurn`. Its matcher is after all committed tokens; None: the turn
    is free text. `limit` is the maximum number of its tokens, `count` their number so far."""

    vocabulary: Vocabulary
    matcher: Matcher | None
    limit: int

    @property
    def count(self) -> int: ...

    @property
    def transcript(self) -> TranscriptView: ...


P = TypeVar("P", bound="TurnPart")


class TurnPart:
    """One rule of a turn, with the state that it needs. A subclass overrides the hooks it needs.

    Every hook may raise GrammarError, which ends the request: no rule is ever dropped silently.
    """

    name: ClassVar[str] = "rule"

    def forbids(self, turn: TurnView) -> bool:
        """True if `steer` may forbid a token here. A part overrides both or neither."""
        return False

    def steer(self, logits: np.ndarray, turn: TurnView) -> None:
        """Forbids, in place, tokens that the mask allows. Called only where it `forbids`, and not
        where the mask leaves one token. Ends of the turn may be forbidden after it (`ignore_eos`),
        so it leaves another token besides them."""

    def admits(self, tokens: Sequence[int], turn: TurnView) -> bool:
        """Returns True if the turn may take the next tokens; otherwise it ends before them."""
        return True

    def after_take(self, token: int, turn: TurnView, *, is_forced: bool, is_computed: bool) -> None:
        """Notes a token of the turn, whose text is written.

        Args:
            is_forced: it was not sampled.
            is_computed: it was drafted, so the KV cache already has it.
        """

    def react(self) -> bool:
        """Ends or changes the turn if its text asks for it; returns True if it did. It is also
        asked when the turn is over, and for each token of an ending that is written because the
        tokens ran out: a part that ends turns looks at `finish` first."""
        return False

    def insert(self, turn: TurnView) -> Sequence[int]:
        """Returns the tokens that the turn has to continue with, if any."""
        return ()

    def rewind(self, count: int) -> None:
        """Notes that the turn was cut to its first `count` tokens."""

    def report(self) -> Mapping[str, tuple[object, ...]]:
        """Returns what is added to fields of the `Generation`, by their names."""
        return {}


class TurnParts:
    """The hooks of the parts of one turn, as bound methods, in the order of the parts.

    A turn calls most hooks for each token, and a part overrides only some of them. Those that do
    nothing are left out. The last part reacts first, since it is nearest to the caller.

    Attributes:
        steering: the parts with a hook `steer`. All other attributes are named after their hook.
    """

    def __init__(self, parts: Sequence[TurnPart] = ()):
        self._parts = list(parts)
        self._bind()

    def find(self, kind: type[P]) -> P | None:
        """Returns the part of a kind; None: the turn has none."""
        return next((part for part in self._parts if isinstance(part, kind)), None)

    def put(self, part: TurnPart) -> None:
        """Puts a part in the place of the one of its kind."""
        for place, known in enumerate(self._parts):
            if type(known) is type(part):
                self._parts[place] = part
        self._bind()

    def _bind(self) -> None:
        self.steering = self._list_having("steer")
        self.admits = [part.admits for part in self._list_having("admits")]
        self.after_take = [part.after_take for part in self._list_having("after_take")]
        self.react = [part.react for part in reversed(self._list_having("react"))]
        self.insert = [part.insert for part in self._list_having("insert")]
        self.rewind = [part.rewind for part in self._list_having("rewind")]
        self.report = [part.report for part in reversed(self._list_having("report"))]

    def _list_having(self, hook: str) -> list[TurnPart]:
        inherited = getattr(TurnPart, hook)
        return [part for part in self._parts if getattr(type(part), hook) is not inherited]
