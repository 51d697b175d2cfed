"""Other envelopes: the ways to write calls that are not the model's own, as values of the algebra.

Models write the calls that they were asked for in the form that they have seen most: in a fence, as
a bare object, between tags of another model. How a call begins differs in white space, order and
keys, so `grammars.parse.envelopes` reads it. How it goes on is a `Format`, with the texts around
the calls as its opening and closing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from grammars.wire.format import Format
from grammars.wire.nodes import (
    Hole,
    JsonArguments,
    JsonStyle,
    KeywordArguments,
    Literal,
    Marker,
    Name,
    Node,
)

LOOSE = JsonStyle(loose=True)
"""Models write JSON in these envelopes in one line, or indented. If a mask forbids the line break
after a value, they lengthen the value, or add an argument."""


class EnvelopeKind(StrEnum):
    """What an envelope begins with."""

    FENCE = "fence"
    TAG = "tag"
    LIST = "list"
    OBJECT = "object"
    FUNCTION = "function"  # NAME(...)


@dataclass(frozen=True)
class Wrapper:
    """Text around the calls of an envelope, with the line breaks that belong to it."""

    kind: EnvelopeKind
    opener: str
    closer: str = ""


LIST = Wrapper(EnvelopeKind.LIST, "[", "]")


def write_fence(language: str) -> Wrapper:
    return Wrapper(EnvelopeKind.FENCE, f"```{language}\n", "\n```")


def write_tag(tag: str) -> Wrapper:
    """Returns a tag, with its closing tag if it is one of XML, perhaps without its first or last
    character."""
    word = tag.removeprefix("<").removesuffix(">")
    closer = f"\n</{word}>" if word.isidentifier() else ""
    return Wrapper(EnvelopeKind.TAG, f"{tag}\n", closer)


def write_json_call(name_key: str, arguments_key: str, *, encoded: bool = False) -> Sequence[Node]:
    """Returns the nodes of a call that is a JSON object with its name and arguments under these
    keys. If `encoded`, the arguments are the text of a JSON string."""
    return (
        Marker(f'{{"{name_key}": "'),
        Name(),
        Literal(f'", "{arguments_key}": '),
        JsonArguments(encoded=True) if encoded else JsonArguments(LOOSE),
        Literal("}"),
    )


def write_function_call(hole: Hole) -> Sequence[Node]:
    """Returns the nodes of a call as in a program: `functions.NAME(...)`."""
    return (Marker("functions."), Name(), Literal("("), hole, Literal(")"))


FUNCTION_OF_JSON = write_function_call(JsonArguments(LOOSE))
FUNCTION_OF_KEYWORDS = write_function_call(KeywordArguments())
NAME_AND_JSON: Sequence[Node] = (Name(), Literal("\n"), JsonArguments(LOOSE))
"""A name behind a tag, and its arguments."""


def write_tagged_call(before: str, after: str, closer: str) -> Sequence[Node]:
    """Returns the nodes of a call whose tag has the name, around JSON: `<function=NAME>{...}`."""
    return (Marker(before), Name(), Literal(after), JsonArguments(LOOSE), Literal(closer))


def wrap(wrappers: Sequence[Wrapper], call: Sequence[Node]) -> Format:
    """Returns the format of a turn that goes on in an envelope, with these wrappers around its
    calls, the outermost first. A call begins with a marker."""
    opener = "".join(wrapper.opener for wrapper in wrappers)
    closer = "".join(wrapper.closer for wrapper in reversed(wrappers))
    is_list = any(wrapper.kind is EnvelopeKind.LIST for wrapper in wrappers)
    return Format(
        name="envelope",
        opening=(Marker(opener),) if opener else (),
        call=tuple(call),
        closing=(Literal(closer),) if closer else (),
        closes_one=False,  # models leave it out, and nothing depends on it
        between=", " if is_list else "\n",
    )


@dataclass(frozen=True)
class ForeignCall:
    """The beginning of a call in another envelope, as the parser has read it: from `start`, with
    the white space before it, to `end`, in characters of the turn. It is not known how the rest is
    written if the format is None."""

    kind: EnvelopeKind
    tool: str
    start: int
    end: int
    format: Format | None
