"""What a kind of arguments has: a grammar, a reader and a writer."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from grammars.errors import ToolError
from grammars.regex.writing import escape_regex
from grammars.schema.json_values import Json
from grammars.schema.nodes import Schema, Violation, escape
from grammars.spelling.buffer import Buffer, NotACallError, Steps
from grammars.spelling.names import BLANK, is_name
from grammars.turn import Tool
from grammars.turn_grammar.arguments.stream import CallSink
from grammars.turn_grammar.ir.nodes import Expression
from grammars.turn_grammar.values import Values
from grammars.wire.format import Format
from grammars.wire.nodes import CallId, CallIndex, JsonStyle, Name
from grammars.wire.nodes import Node as FormatNode

ArgumentRules: TypeAlias = Callable[[Schema], Expression]
"""Adds the rules of a tool's arguments to a grammar; raises SchemaError if they cannot be
written."""

Piece: TypeAlias = str | CallId | CallIndex
"""Text, or the hole of an id that is not known."""


@dataclass
class CallParts:
    """The parts of a call that have been read.

    Args:
        counter, index: if the format counts calls: the hole of the number, and the text in it.
        errors: why the arguments do not fit the schema; their pointers are relative to the
            arguments.
        is_held: the arguments come before the name, so the sink has not received them yet.
    """

    name: str = ""
    id: str | None = None
    counter: CallIndex | None = None
    index: str = ""
    arguments: dict[str, Json] = field(default_factory=dict[str, Json])
    errors: tuple[Violation, ...] = ()
    is_held: bool = False

    def find_id(self) -> str | None:
        """Returns the id, made from the number if the format counts calls; NotACallError: it is
        none."""
        if self.counter is None:
            return self.id
        if not self.index.isdigit():
            raise NotACallError
        if not self.counter.id:
            return None
        return self.counter.id.format(name=self.name, index=self.index)


@dataclass(frozen=True)
class CallSource:
    """Where a call is read from, and what receives its name and arguments meanwhile. In recovery,
    also common variants are read: a missing closer, other keys."""

    buffer: Buffer
    tools: Mapping[str, Tool]
    recover: bool
    sink: CallSink

    def find_schema(self, name: str) -> Schema | None:
        return self.tools[name].schema if name in self.tools else None


@dataclass(frozen=True)
class CallToWrite:
    """A call whose arguments are rendered; `where` is the JSON pointer to them."""

    name: str
    arguments: Mapping[str, Json]
    tools: Mapping[str, Tool]
    where: str

    @property
    def schema(self) -> Schema | None:
        return self.tools[self.name].schema if self.name in self.tools else None

    def at(self, key: str) -> str:
        return f"{self.where}/{escape(key)}"


@dataclass(frozen=True)
class CallsSpec:
    """What the rules of arguments are built from. The names are those of all tools."""

    tools: Sequence[Tool]
    names: Sequence[str]
    several: bool
    values: Values


class CallChain(ABC):
    """The rules of all calls of a turn, if values end only where the text after them begins."""

    @abstractmethod
    def calls(
        self, first: Sequence[FormatNode], *, spaced: bool = False, lead: str = ""
    ) -> Expression:
        """Returns a rule for the calls of a turn, from the first nodes to the closer of the calls;
        NOTHING: no call begins with the lead. White space before the call (`spaced`) is in one
        terminal with it: otherwise content that begins with white space would win over one of white
        space alone."""


class ArgumentsKind(ABC):
    """How a format writes the arguments of a call."""

    def __init__(self, format: Format):
        self.format = format

    @property
    @abstractmethod
    def style(self) -> JsonStyle:
        """The style of the values."""

    # The grammar.

    @abstractmethod
    def make_rules(self, spec: CallsSpec) -> ArgumentRules | CallChain:
        """Returns the rules of arguments, for values that end by themselves (`MemberRules` has
        their order), or of whole calls, for raw text that ends where something else begins."""

    # The reader.

    @abstractmethod
    def read(self, source: CallSource, parts: CallParts) -> Steps[None]:
        """Reads the arguments of a call into its parts. Raises NotACallError, CutError, and
        DeepJsonError if they are nested too deeply: then all of their text has been taken, and the
        reader goes on behind it."""

    @property
    @abstractmethod
    def beginnings(self) -> tuple[str, ...]:
        """The texts that arguments begin with, to find where a name before them ends. "": there may
        be none, so that what follows them may stand here; also if a fixed text ends the name."""

    @property
    def closers(self) -> tuple[str, ...]:
        return ()

    def list_starts(self, names: Iterable[str]) -> tuple[tuple[str, ...], ...]:
        """Returns the texts that bare calls of these tools begin with; see `Format.bare_start`."""
        return (self.format.bare_start,)

    def match_start(self) -> str:
        """Returns a regular expression for texts that begin like bare calls of any name."""
        return "".join(f"{BLANK}*{escape_regex(text)}" for text in self.format.bare_start)

    # The writer.

    @abstractmethod
    def write(self, call: CallToWrite) -> str:
        """Returns the arguments of a call; RenderError: they could be read back as something
        else."""

    def open_call(self, name: str, id: str | None) -> Sequence[Piece]:
        """Returns what the kind writes before the arguments beside other nodes: name and id, if
        these stand in one value with them. Without an id (None), any id may stand there."""
        return ()

    def close_call(self, id: str | None) -> Sequence[Piece]:
        """Returns what the kind writes after the arguments, likewise."""
        return ()

    @property
    def id(self) -> CallId | CallIndex | None:
        """The hole of the id, if the kind writes it beside the arguments."""
        return None

    # Names of tools.

    def can_name(self, name: str) -> bool:
        """Returns whether a call of this kind is parsed back with this name."""
        return is_name(name)

    def check_name(self, name: str) -> None:
        """Raises ToolError for a name that would be parsed as another one, or begins content."""
        if Name() not in self.format.call:
            return
        if not self.can_name(name):
            hint = "Use letters, digits, '_', '-' and '.'"
            raise ToolError(self._refusal(name), hint=hint)
        if self.format.opener is not None and self.begins_content(self.format.opener.text + name):
            raise ToolError(self._refusal(name), hint="Rename it")

    def _refusal(self, name: str) -> str:
        return f"format {self.format.name} cannot write the name {name!r}"

    def begins_content(self, text: str) -> bool:
        return any(content.opener.startswith(text) for content in self.format.contents)
