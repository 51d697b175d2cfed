"""The texts at which text of a turn may end: openers, closers and ends."""

from grammars.parse.groups import CallGroups
from grammars.parse.output import TurnOutput
from grammars.wire.format import Content


class TextStops:
    """Finds the texts that may end the current text. `thoughts`, `ends`: as in `Parser`."""

    def __init__(
        self,
        groups: CallGroups,
        output: TurnOutput,
        *,
        recover: bool,
        thoughts: tuple[str, str] | None,
        ends: tuple[str, ...],
    ):
        self._groups = groups
        self._output = output
        self._recover = recover
        self._thoughts = thoughts
        self._ends = ends

    @property
    def strays(self) -> tuple[str, ...]:
        """The markers of a reasoning block that may occur anywhere in a turn."""
        format = self._groups.format
        if not self._recover or format.reasoning is None or not format.strays:
            return ()
        return (format.reasoning.opener.text, *format.strays)

    def find(self, *, calls: bool, lines: bool) -> tuple[str, ...]:
        """Returns these texts. `lines`: a call in another envelope may begin with the next line."""
        format, output = self._groups.format, self._output
        wrapping = output.wrapping
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
        befores = self._groups.format.list_befores(amid_content=amid_content)
        return tuple(before + opener for opener in self._groups.openings for before in befores)
