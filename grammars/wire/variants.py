"""Nodes of calls that models write in another way than the template does.

Only the parser interprets these, in recovery: they never generate text.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Handle:
    """A hole: the name, and optionally the number, of a call in one text.

    Args:
        patterns: the ways to write it, with `{name}` and optionally `{index}`.
        id: the pattern of the call's id; no id if the text has no index.
    """

    patterns: tuple[str, ...] = ("{name}",)
    id: str = ""

    def read(self, text: str, names: Collection[str]) -> tuple[str, str | None] | None:
        """Returns the name, which is one of `names`, and the id, if the text has an index; None: no
        pattern matches."""
        for pattern in self.patterns:
            expression = re.escape(pattern).replace(r"\{name\}", "(?P<name>.+)")
            expression = expression.replace(r"\{index\}", "(?P<index>[0-9]+)")
            match = re.fullmatch(expression, text.strip())
            if match and match["name"] in names:
                parts = match.groupdict()
                id = self.id.format(**parts) if "index" in parts else None
                return parts["name"], id
        return None


@dataclass(frozen=True)
class AnyWord:
    """A hole: a word that may be any, as in the tag that opens the calls of another version."""


@dataclass(frozen=True)
class MessageHeader:
    """The contents of a message header.

    Args:
        channel: the last channel that it names; "": none.
        is_spaced: white space follows its markers, since some models write it everywhere.
    """

    channel: str
    recipient: str
    is_spaced: bool


@dataclass(frozen=True)
class MessageHeaders:
    """Messages with headers, which models write in many ways: with parts in any order, repeated or
    missing, and white space around them. A header goes from one of its markers to `body`.

    Args:
        role: the model's role.
        channel, recipient, kind: the text before the name of each. The kind is that of the content;
            its name may also be written alone.
        kinds: names of kinds that may be written alone.
        thoughts: the channels with reasoning; all others have content.
        tools: the prefix of a tool's name as a recipient; models sometimes leave it out.
        others: recipients that are no tools, beside the model itself.
    """

    start: str
    role: str
    channel: str
    recipient: str
    kind: str
    kinds: tuple[str, ...]
    body: str
    end: str
    thoughts: tuple[str, ...]
    tools: str
    others: tuple[str, ...]

    @property
    def starts(self) -> tuple[str, ...]:
        return (self.start, self.channel, f" {self.recipient}")

    @property
    def marks(self) -> tuple[str, ...]:
        return (*self.starts, self.kind, self.body, self.end)

    def read(self, text: str) -> MessageHeader | None:
        """Reads a header, from its first marker up to `body`; None: it is not a header."""
        if self._compile().fullmatch(text) is None:
            return None
        channels: list[str] = re.findall(rf"{re.escape(self.channel)}\s*(\w+)", text)
        recipients: list[str] = re.findall(rf"{re.escape(self.recipient)}([^\s<]+)", text)
        return MessageHeader(
            channel=channels[-1] if channels else "",
            recipient=recipients[-1] if recipients else "",
            is_spaced=re.search(rf"{re.escape(self.channel)}\s", text) is not None,
        )

    def _compile(self) -> re.Pattern[str]:
        start, channel, kind = map(re.escape, (self.start, self.channel, self.kind))
        parts = (
            rf"{start}\s*{re.escape(self.role)}",
            rf"{channel}(\s*\w+)?",
            rf"(?<!\w){re.escape(self.recipient)}[^\s<]+",
            rf"{kind}\s*[\w./+-]+",
            rf"(?<!\w)({'|'.join(map(re.escape, self.kinds))})(?!\w)",
        )
        return re.compile(rf"(\s*({'|'.join(parts)}))+\s*")

    def find_tool(self, recipient: str, names: Collection[str]) -> str | None:
        """Returns the tool that is the recipient of a message, even one that is not offered; None:
        it is no tool."""
        for name in (recipient, recipient.removeprefix(self.tools)):
            if name in names:
                return name
        is_other = recipient in ("", self.role, *self.others)
        return None if is_other else recipient.removeprefix(self.tools)
