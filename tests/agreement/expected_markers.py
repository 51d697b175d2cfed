"""Which markers may come next, place by place: read off the format, not off its grammar."""

import re
from dataclasses import dataclass

from grammars.turn import Choice, Policy, Start, State, Think
from grammars.wire.format import Format, Marker

BLANK = " \t\r\n"
MAX_BLANK = 4  # characters of white space that may stand in front of a block


@dataclass(frozen=True)
class Next:
    """What may follow: these markers, and the end of the turn. `exact`: and all of them do."""

    markers: frozenset[str]
    end: bool
    exact: bool = True


class Place:
    """How far a turn has come, where its markers are tokens.

    Args:
        tools: are there tools that may be called?
    """

    def __init__(self, format: Format, policy: Policy, state: State, tools: bool):
        self.format, self.policy, self.tools = format, policy, tools
        self.thinking = state.start is Start.OPEN
        block = format.reasoning is not None and policy.think is not Think.FORBIDDEN
        self.can_think = block and state.start is Start.PLAIN
        self.can_close = format.reasoning is not None and state.start is Start.CLOSED
        self.text = b""  # since the last marker
        self.seen: int | None = None  # markers of the call under way, or of the last one
        self.call = tuple(node.text for node in format.call if isinstance(node, Marker))

    @property
    def is_free(self) -> bool:
        """Is this content or reasoning, and no call?"""
        return self.seen is None

    def commit(self, data: bytes, marker: str | None) -> None:
        """Goes on with a token: a marker, or text."""
        if marker is None:
            self.text += data
            if self.seen is None and not self.thinking and self._begins_call():
                self.seen = 1
            return
        block = self.format.reasoning
        if self.can_close and block is not None and marker == block.closer.text:
            pass  # once more than the prompt has
        elif self.thinking:
            self.thinking = False
        elif block is not None and marker == block.opener.text:
            self.thinking, self.can_think = True, False
        else:
            self.seen = 1 if self.seen in (None, len(self.call)) else self.seen + 1
        self.text = b""
        self.can_think = self.can_close = False

    def next(self) -> Next:
        """What may come next."""
        block = self.format.reasoning
        whole = _is_whole(self.text)
        if self.thinking and block is not None:
            return Next(frozenset({block.closer.text}), False, whole)
        if self.seen is not None:
            return self._next_in_call(self.seen)
        required = self.policy.choice is Choice.REQUIRED
        markers = {self.call[0]} if self.tools and self.call else set()
        if self.can_think and block is not None and self._is_blank():
            think = {block.opener.text}
            if self.policy.think is Think.REQUIRED:
                return Next(frozenset(think), False)
            markers |= think
        if self.can_close and block is not None and self._is_blank():
            markers.add(block.closer.text)
        return Next(frozenset(markers), not required, whole)

    def _next_in_call(self, seen: int) -> Next:
        if seen < len(self.call):
            return Next(frozenset({self.call[seen]}), False, exact=False)
        again = self.policy.parallel and not self.format.single
        return Next(frozenset(self.call[:1] if again else ()), True, exact=False)

    def _is_blank(self) -> bool:
        return len(self.text) <= MAX_BLANK and not self.text.decode(errors="replace").strip(BLANK)

    def _begins_call(self) -> bool:
        """Does the text open a call without a marker?"""
        if not self.tools:
            return False
        text = self.text.decode(errors="replace")
        if start := self.format.bare_start:
            required = self.policy.choice is Choice.REQUIRED
            pattern = "".join(rf"\s*{re.escape(text)}" for text in start)
            return required or re.match(pattern, text) is not None
        tags = [opening for opening in self.format.openings if opening not in self.format.markers]
        if self.policy.choice is Choice.REQUIRED:
            return bool(text.strip(BLANK))
        return any(text.endswith(tag) for tag in tags)


def _is_whole(data: bytes) -> bool:
    """Does the text end with a whole character?"""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
