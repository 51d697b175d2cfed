"""What the parser looks at without taking it."""

import json

from grammars.parse.buffer import Buffer, CutError, NotACallError, Steps
from grammars.wire.format import Format, JsonCall


class Lookahead:
    """Looks at the text to come.

    Args:
        buffer: that text.
    """

    def __init__(self, buffer: Buffer):
        self._buffer = buffer

    def _looks_ahead(self, steps: Steps[bool]) -> Steps[bool]:
        """What these steps find; takes nothing."""
        self._buffer.mark()
        try:
            found = yield from steps
        except (CutError, NotACallError):
            found = False
        self._buffer.unread(self._buffer.forget())
        return found

    def _sees_exactly(self, text: str) -> Steps[bool]:
        yield from self._buffer.literal(text)
        return True

    def _sees_text(self, *texts: str) -> Steps[bool]:
        yield from self._buffer.space()
        yield from self._buffer.literal(*texts)
        return True

    def _opens_calls(self, format: Format) -> Steps[bool]:
        """Does the text begin with what opens calls, and not content (`>>>all`)?"""
        openings = tuple(opening.lstrip() for opening in format.openings)
        longer = [c.opener for c in format.contents if c.opener.startswith(openings)]
        is_content = longer and (yield from self._looks_ahead(self._sees_text(*longer)))
        return not is_content and (yield from self._looks_ahead(self._sees_text(*openings)))

    def _sees_bare_call(self, bare: JsonCall) -> Steps[bool]:
        """Does the text begin as a call does that has no marker?"""

        def steps() -> Steps[bool]:
            for part in ("{", json.dumps(bare.name_key, ensure_ascii=bare.style.ascii)):
                if (yield from self._buffer.space()).strip(" \t\r\n"):
                    return False
                yield from self._buffer.literal(part)
            return True

        return self._looks_ahead(steps())
