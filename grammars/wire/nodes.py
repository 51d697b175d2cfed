"""The nodes of a call: fixed text and typed holes."""

from dataclasses import dataclass, replace
from typing import TypeAlias


@dataclass(frozen=True)
class Literal:
    """Text that is always written as it is."""

    text: str


@dataclass(frozen=True)
class Marker:
    """A structural tag: special tokens if the vocabulary has them, otherwise ordinary text.

    It may have several such tokens with words between them, as in `<|open|>think<|sep|>`.
    """

    text: str


@dataclass(frozen=True)
class Name:
    """A hole: the name of the tool, as it is."""


@dataclass(frozen=True)
class CallId:
    """A hole: an id that the model makes up, of these characters and of this length."""

    pattern: str = "[a-zA-Z0-9]{9}"


@dataclass(frozen=True)
class CallIndex:
    """A hole: the number of the call.

    Args:
        first: the number of the first call.
        id: the pattern of the call's id, with `{name}` and `{index}`; "" if the id has no index.
        anew: each turn starts at `first`; otherwise the count continues over the conversation.
    """

    first: int = 0
    id: str = "{index}"
    anew: bool = False

    def count(self, before: int | None, number: int) -> int | None:
        """The index of a call; None if it is not known.

        Args:
            before: the number of calls in the conversation before this turn; None: not known.
            number: the number of calls in this turn before this one.
        """
        if self.anew:
            return self.first + number
        return None if before is None else self.first + before + number


@dataclass(frozen=True)
class JsonStyle:
    """The spelling of values in a template. Jinja's `tojson` writes `", "` and `": "`.

    Args:
        item, key: what stands between two items, and behind a key.
        ascii: other characters are escaped.
        indent: spaces by which each level is indented, every item on a line of its own; 0: none.
        level: the level on which the value stands.
        quotes: what stands around a string, the template's own first; Python writes both kinds.
        escapes: backslashes escape; if not, a string is raw text up to its quote.
        bare_keys: keys have no quotes.
        sorted_keys: keys stand in the order of jinja's `dictsort` (of their lower case).
        true, false, null: the accepted spellings, the template's own first.
    """

    item: str = ", "
    key: str = ": "
    ascii: bool = False
    indent: int = 0
    level: int = 0
    quotes: tuple[str, ...] = ('"',)
    escapes: bool = True
    bare_keys: bool = False
    sorted_keys: bool = False
    true: tuple[str, ...] = ("true",)
    false: tuple[str, ...] = ("false",)
    null: tuple[str, ...] = ("null",)


@dataclass(frozen=True)
class JsonCall:
    """A hole: one JSON object that carries the name and the arguments.

    Args:
        name_key, arguments_key: their keys.
        id: the id of the call, if it is a member, too; it stands last, or first.
        id_key: its key.
    """

    name_key: str = "name"
    arguments_key: str = "arguments"
    style: JsonStyle = JsonStyle()
    id: "CallId | CallIndex | None" = None
    id_key: str = "id"
    id_first: bool = False


@dataclass(frozen=True)
class JsonArguments:
    """A hole: the arguments as one JSON object; the name has a hole of its own.

    Args:
        encoded: the object is the text of a JSON string: `"{\\"city\\": \\"Rome\\"}"`.
    """

    style: JsonStyle = JsonStyle()
    encoded: bool = False


@dataclass(frozen=True)
class TextWrapper:
    """A string is written `opener TEXT closer` where it holds one of these texts; XML has
    `<![CDATA[TEXT]]>` for that. Nothing is escaped in there.

    Args:
        triggers: the texts; ("",): every string is.
    """

    opener: str
    closer: str
    triggers: tuple[str, ...]

    def wraps(self, text: str) -> bool:
        """Is this string written in the wrapper?"""
        return any(trigger in text for trigger in self.triggers)


@dataclass(frozen=True)
class TaggedArguments:
    """A hole: every argument between tags of its own; strings raw, the rest JSON.

    An argument is written `open KEY after_key VALUE close`, or `open KEY after_key KIND after_kind
    VALUE close` where its type is named; `end` stands after the last one. No such format escapes
    anything, so a value ends only at `close` followed by `open` or `end`; one in a wrapper, at the
    closer of that followed by these.

    Args:
        close_key: what stands behind the key where `close` is followed by it (`</city>`). Then only
            keys that the schema declares can be written: no grammar without context could compare
            the two. None: no key stands there.
        true, false, null: the accepted spellings, the template's own first.
        empty: what stands in place of `end` where there are no arguments; None: `end`.
        kinds: types of JSON Schema, each with the name that is written for it, `""` for all others;
            () where none is.
        after_kind: what stands behind that name.
        wrapper: what stands around some strings; None: they are written as they are.
        sorted_keys: arguments stand in the order of jinja's `dictsort`.
    """

    open: str
    after_key: str
    close: str
    end: str
    true: tuple[str, ...] = ("true",)
    false: tuple[str, ...] = ("false",)
    null: tuple[str, ...] = ("null",)
    style: JsonStyle = JsonStyle()
    empty: str | None = None
    kinds: tuple[tuple[str, str], ...] = ()
    after_kind: str = ""
    wrapper: TextWrapper | None = None
    close_key: str | None = None
    sorted_keys: bool = False

    def of(self, key: str) -> "TaggedArguments":
        """The tags of one argument: what closes it is a fixed text."""
        if self.close_key is None:
            return self
        return replace(self, close=self.close + key + self.close_key, close_key=None)

    @property
    def rest_of_end(self) -> str:
        """What tells the end from another argument, where it begins as one does (`<` of `</call>`);
        "" where it does not."""
        return self.end.removeprefix(self.open) if self.end.startswith(self.open) else ""


PYTHON = JsonStyle(
    quotes=("'", '"'),
    true=("True", "true"),
    false=("False", "false"),
    null=("None", "null"),
)
"""Values as Python's `repr` writes them; those of JSON are accepted, too."""


@dataclass(frozen=True)
class KeywordArguments:
    """A hole: arguments by keyword, `KEY after_key VALUE`, with `item` between two: `first ARGUMENT
    (item ARGUMENT)* last`, or `empty` where there are none. So are those of a call in Python, lines
    such as `key: value`, and any other list in which each value tells its own end.

    A string among them is raw text between quotes of one kind, or one of Python between those of
    the other kind; only strings are quoted. Raw text may hold its own quote: it ends where what
    follows the quote can follow the string.

    Args:
        style: how values inside a list are spelled, and all others but strings and objects.
        objects: how an object is spelled.
        strings: how a string with escapes is spelled; None: as `style` has it.
        quote: what stands around raw text; "" where every string has escapes.
        first, last: what stands in front of the first argument, and behind the last one.
        empty: what stands there where there are no arguments.
        sorted_keys: arguments stand in the order of jinja's `dictsort`.
    """

    item: str = ", "
    after_key: str = "="
    style: JsonStyle = PYTHON
    objects: JsonStyle = JsonStyle()
    strings: JsonStyle | None = None
    quote: str = "'"
    first: str = ""
    last: str = ""
    empty: str = ""
    sorted_keys: bool = False

    def __post_init__(self) -> None:
        if not {*self.style.quotes, self.quote} <= {*PYTHON.quotes, ""} or not self.style.escapes:
            raise TypeError("strings of Python have single or double quotes, and escapes")

    @property
    def escaped(self) -> JsonStyle:
        """The style of strings with escapes."""
        style = self.strings or self.style
        if not self.quote:
            return style
        others = tuple(quote for quote in PYTHON.quotes if quote != self.quote)
        return replace(style, quotes=others)


@dataclass(frozen=True)
class NestedArguments:
    """A hole: every argument between tags of its own, and so are the members of objects and the
    items of lists.

    A value is written `mark<KEY> VALUE mark</KEY>`: a string is raw text that cannot contain the
    mark, an object the tags of its members, a list tags called `item`, all else JSON. What is
    empty is written as nothing.

    Args:
        mark: what stands in front of every tag.
        item: the name of an item's tags.
    """

    mark: str
    item: str = "item"
    style: JsonStyle = JsonStyle()

    def __post_init__(self) -> None:
        if not self.mark:
            raise TypeError("nothing tells tags from text")

    def open(self, key: str) -> str:
        """The text in front of a value."""
        return f"{self.mark}<{key}>"

    def close(self, key: str) -> str:
        """The text behind a value."""
        return f"{self.mark}</{key}>"


Hole: TypeAlias = JsonCall | JsonArguments | TaggedArguments | KeywordArguments | NestedArguments
Fixed: TypeAlias = Literal | Marker
Node: TypeAlias = Fixed | Name | CallId | CallIndex | Hole
