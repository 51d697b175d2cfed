"""The texts at which text of a turn may end: openers, closers and ends."""

from collections.abc import Sequence

from grammars.parse.output import TurnOutput
from grammars.wire.format import Content, Format


class TextStops:
    """Finds the texts that may end the current text.

    Args:
        format: of the turn.
        openings: the texts that open calls.
        recover: as in `Parser`.
        thoughts: as in `Parser`.
        ends: as in `Parser`.
    """

    def __init__(
        self,
        format: Format,
        openings: Sequence[str],
        *,
        recover: bool,
        thoughts: tuple[str, str] | None,
        ends: tuple[str, ...],
    ):
        self._format = format
        self._openings = openings
        self._recover = recover
        self._thoughts = thoughts
        self._ends = ends

    @property
    def strays(self) -> tuple[str, ...]:
        """The markers of a reasoning block that may occur anywhere in a turn; empty if the format
        does not list any."""
        block = self._format.reasoning
        if not self._recover or block is None or not self._format.strays:
            return ()
        return (block.opener.text, *self._format.strays)

    def find(
        self, output: TurnOutput, wrapping: Content | None, *, calls: bool, lines: bool
    ) -> tuple[str, ...]:
        """Returns these texts.

        Args:
            output: says where the text stands.
            wrapping: of the current content; None: it has none.
            calls: calls may come.
            lines: a call in another envelope may begin with the next line.
        """
        format = self._format
        openings = self._list_openings(wrapping) if calls else ()
        if output.is_inside and format.reasoning is not None:
            closers = format.reasoning.closers
            if not self._recover:
                return closers
            others = [opening for opening in openings if not opening.startswith(closers)]
            return (*closers, *others, *format.tagged_openers)
        breaks = ("\n",) if lines else ()
        if wrapping is not None:
            if not self._recover and (not wrapping.calls or wrapping.closer):
                openings = ()
            closers = (wrapping.closer,) if wrapping.closer else ()
            return (*closers, *openings, *format.inner_ends, *self._ends, *breaks)
        tail = (format.tail,) if format.tail else ()
        outside = (*openings, *format.content_openers, *format.inner_ends, *tail, *self.strays)
        if output.in_thoughts and self._thoughts:  # the grammar allows calls there, too
            closer = self._thoughts[1]
            outside = (f"\n{closer}", closer, *outside)
        return (*outside, *self._ends, *breaks)

    def _list_openings(self, wrapping: Content | None) -> tuple[str, ...]:
        """Returns the texts that open calls, with what may come before them."""
        amid_content = wrapping is not None and not self._recover
        befores = self._format.list_befores(amid_content=amid_content)
        return tuple(before + opener for opener in self._openings for before in befores)
