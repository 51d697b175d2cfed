"""A finding about a parser or a server, as a report that its maintainers can use without us."""

import hashlib
import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from constrained.inspect.conformance.fault_kind import FaultKind
from grammars.schema.json_values import JsonObject


@dataclass(frozen=True)
class SuiteFinding:
    """Something that is wrong.

    Args:
        check: the name of the check, or of the row.
        about: what holds, in a sentence.
        what: is wrong.
        kinds: the kinds of faults in it.
        request: that shows it.
        expected, got: as JSON; None where there is nothing to compare.
        reproduce: a line for a shell.
        format: the name of the wire format; "" for servers.
    """

    check: str
    about: str
    what: str
    kinds: Sequence[FaultKind]
    request: JsonObject
    expected: Any
    got: Any
    reproduce: str
    format: str = ""

    @property
    def id(self) -> str:
        """A hash of the check, the format, the kinds of faults and the request."""
        return make_id(self.check, self.request, format=self.format, kinds=self.kinds)

    def to_json(self) -> JsonObject:
        """Returns the finding as a JSON object."""
        return {"id": self.id, **vars(self)}

    def describe(self) -> Iterator[str]:
        """Returns the finding as lines of Markdown."""
        yield f"### {self.check}: {self.what}"
        yield ""
        yield self.about
        yield ""
        yield f"kind: {', '.join(self.kinds)}"
        yield ""
        yield f"id: {self.id}"
        yield ""
        yield "```"
        for name, value in (*self.request.items(), ("expected", self.expected), ("got", self.got)):
            if value is not None:
                yield f"{name:9} {json.dumps(value, ensure_ascii=False, default=repr)}"
        yield "```"
        yield ""
        yield "Reproduce:"
        yield ""
        yield "```sh"
        yield self.reproduce
        yield "```"


def make_id(
    check: str, request: JsonObject, *, format: str, kinds: Sequence[FaultKind] = ()
) -> str:
    """Returns an id: the name of the check and 12 hexadecimal digits of a hash.

    Args:
        request: the request of the case or of the finding.
        format: the name of the wire format; "": none.
        kinds: the kinds of faults in a finding.
    """
    name = check.replace(" ", "_")
    # Characters as escapes, since a text may have a lone surrogate.
    written = json.dumps([check, format, sorted(kinds), request], sort_keys=True)
    return f"{name}-{hashlib.sha256(written.encode()).hexdigest()[:12]}"


def write_pipe_line(command: str, request: JsonObject) -> str:
    """Returns the shell's line that sends one request to a parser."""
    # printf, as echo reads backslashes in some shells.
    return f"printf '%s\\n' {shlex.quote(json.dumps({'id': 1, **request}))} | {command}"


def write_curl(url: str, body: JsonObject) -> str:
    """Returns the shell's line that sends one request to a server."""
    data = shlex.quote(json.dumps(body))
    return f"curl {shlex.quote(url)} -H 'Content-Type: application/json' -d {data}"
