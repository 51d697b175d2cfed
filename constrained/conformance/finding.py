"""A finding about a parser or a server, as a report that its maintainers can use without us."""

import hashlib
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grammars.suite.reading import Reading

Json = Mapping[str, Any]


@dataclass(frozen=True)
class SuiteFinding:
    """Something that is wrong.

    Args:
        check: the name of the check, or of the row.
        about: what holds, in a sentence.
        what: is wrong.
        request: that shows it.
        expected, got: as JSON; None where there is nothing to compare.
        reproduce: a line for a shell.
    """

    check: str
    about: str
    what: str
    request: Json
    expected: Any
    got: Any
    reproduce: str

    @property
    def id(self) -> str:
        """A hash of the check and the request."""
        return make_id(self.check, self.request)

    def to_json(self) -> Json:
        """Returns the finding as a JSON object."""
        return {"id": self.id, **vars(self)}

    def describe(self) -> Iterator[str]:
        """Returns the finding as lines of Markdown."""
        yield f"### {self.check}: {self.what}"
        yield ""
        yield self.about
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


def make_id(check: str, request: Json) -> str:
    """Returns the id of a check and a request: the name and 12 hexadecimal digits of their hash."""
    name = check.replace(" ", "_")
    # Characters as escapes, since a text may have a lone surrogate.
    written = json.dumps([check, request], sort_keys=True)
    return f"{name}-{hashlib.sha256(written.encode()).hexdigest()[:12]}"


def write_pipe_line(command: str, request: Json) -> str:
    """Returns the shell's line that sends one request to a parser."""
    # printf, as echo reads backslashes in some shells.
    return f"printf '%s\\n' {shlex.quote(json.dumps({'id': 1, **request}))} | {command}"


def write_curl(url: str, body: Json) -> str:
    """Returns the shell's line that sends one request to a server."""
    data = shlex.quote(json.dumps(body))
    return f"curl {shlex.quote(url)} -H 'Content-Type: application/json' -d {data}"


def show(value: object) -> Any:
    """Returns a reading, calls or events as JSON."""
    match value:
        case Reading():
            shown: dict[str, Any] = {"content": value.content}
            if value.reasoning:
                shown["reasoning"] = value.reasoning
            return shown | {"calls": _show_calls(value.calls)}
        case list():
            return [_show_item(item) for item in value]
        case _:
            return value


def _show_item(item: object) -> Any:
    if isinstance(item, tuple):
        return _show_calls([item])[0]
    return {"event": type(item).__name__, **vars(item)}


def _show_calls(calls: Sequence[tuple[str, Any]]) -> list[Json]:
    return [{"name": name, "arguments": arguments} for name, arguments in calls]
