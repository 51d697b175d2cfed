"""A finding about a parser or a server, as a report that its maintainers can use without us."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from grammars.schema.json_values import JsonObject

_FENCE = "```"


@dataclass(frozen=True)
class SuiteFinding:
    """Something that is wrong: one cause, whatever the number of checks that show it."""

    # the names of the checks that show it, or of the recorded turns; the first one has found it
    checks: Sequence[str]
    about: str  # what holds, in a sentence
    what: str
    kinds: Sequence[str]
    request: JsonObject  # the smallest one that shows it
    expected: Any  # as JSON, as what follows; None where there is nothing to compare
    got: Any
    reproduce: str  # a line for a shell; "" if the parser is called in this process
    severity: str  # what it costs the user, such as "lost call"
    cause: str = ""  # what its id depends on; "": its check, kinds and request
    format: str = ""  # the name of the wire format; "" for servers
    # the text as a row for `constrained check` and `--rows`; None for servers
    row: JsonObject | None = None

    @property
    def check(self) -> str:
        return self.checks[0]

    @property
    def id(self) -> str:
        """A hash of the format and the cause; for a server of check, kinds and request."""
        if self.cause:
            return make_id(self.kinds[0], {"cause": self.cause}, format=self.format)
        return make_id(self.check, self.request, format=self.format, kinds=self.kinds)

    def to_json(self) -> JsonObject:
        return {"id": self.id, "check": self.check, **vars(self)}

    def describe(self) -> Iterator[str]:
        """Yields the finding as lines of Markdown, to paste into an issue."""
        yield f"### {self.check}: {self.what}"
        yield ""
        yield self.about
        yield ""
        yield f"- severity: {self.severity}"
        yield f"- kind: {', '.join(self.kinds)}"
        yield f"- shown by: {', '.join(self.checks)}"
        yield f"- id: {self.id}"
        yield ""
        yield _FENCE
        for name, value in (*self.request.items(), ("expected", self.expected), ("got", self.got)):
            if value is not None:
                yield f"{name:9} {json.dumps(value, ensure_ascii=False, default=repr)}"
        yield _FENCE
        if self.reproduce:
            yield from ("", "Reproduce:", "", f"{_FENCE}sh", self.reproduce, _FENCE)
        if self.row is not None:
            yield from ("", "As a row for `constrained suite --rows`:", "", f"{_FENCE}json")
            yield json.dumps(self.row, ensure_ascii=False)
            yield _FENCE


def make_id(check: str, request: JsonObject, *, format: str, kinds: Sequence[str] = ()) -> str:
    """Returns an id: the name of the check and 12 hexadecimal digits of a hash of the rest."""
    name = check.replace(" ", "_")
    # Characters as escapes, since a text may have a lone surrogate.
    written = json.dumps([check, format, sorted(kinds), request], sort_keys=True)
    return f"{name}-{hashlib.sha256(written.encode()).hexdigest()[:12]}"
