"""The nodes of a call: fixed text and typed holes."""

from collections.abc import Iterable, Sequence
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
        id: the pattern of the call's id, with `{name}` and `{index}`; "" if the id has no index.
        anew: each turn starts at `first`; otherwise the count continues over the conversation.
    """

    first: int = 0
    id: str = "{index}"
    anew: bool = False

    @property
    def pattern(self) -> str:
        return "0|[1-9][0-9]{0,5}"

    def count(self, before: int | None, number: int) -> int | None:
        """Returns the index of a call; None if it is not known. Before it are so many calls in the
        conversation before this turn (None: not known), and in this turn."""
        if self.anew:
            return self.first + number
        return None if before is None else self.first + before + number


@dataclass(frozen=True)
class JsonStyle:
    """The spelling of values in a template. Jinja's `tojson` writes `", "` and `": "`.

    Args:
        item, key: the text between two items, and after a key.
        ascii: non-ASCII characters are escaped.
        indent: spaces per level, with each item on a separate line; 0: no indentation.
        level: the level of the value.
        loose: a mask lets the model choose the white space between items and after keys.
        quotes: the accepted quotes of strings, the template's own first; Python writes both
            kinds.
        escapes: backslashes escape; if not, a string is raw text up to its quote.
        bare_keys: keys have no quotes.
        true, false, null: the accepted spellings, the template's own first.
    """

    item: str = ", "
    key: str = ": "
    ascii: bool = False
    indent: int = 0
    level: int = 0
    loose: bool = False
    quotes: tuple[str, ...] = ('"',)
    escapes: bool = True
    bare_keys: bool = False
    sorted_keys: bool = False
    true: tuple[str, ...] = ("true",)
    false: tuple[str, ...] = ("false",)
    null: tuple[str, ...] = ("null",)


class ArgumentsHole:
    """The arguments of a call, in some kind. Try these holes before you add one:

    - `JsonCall`: one JSON value that has the name, too (Mistral Nemo).
    - `JsonArguments`: a JSON object (Hermes).
    - `TaggedArguments`: each value is text between tags, which end it (Qwen3 Coder).
    - `NestedArguments`: the same, with tags for the members of objects, too (MiniMax M3).
    - `KeywordArguments`: values that end by themselves, behind their keys: a Python call, lines
      such as `key: value` or `key := value;` (LFM2). Strings are in `"` or `'`; with other quotes
      see `TextWrapper`, for `TaggedArguments`.
    """

    @property
    def texts(self) -> tuple[str, ...]:
        """The fixed texts in the arguments; some may be empty."""
        return ()

    @property
    def marks(self) -> tuple[str, ...]:
        """Those of the texts for which a vocabulary may have tokens, as for a tag."""
        return ()


@dataclass(frozen=True)
class JsonCall(ArgumentsHole):
    """A hole: one JSON object with the name and the arguments.

    Args:
        id: the id of the call, if it is a member, too; it is last, or first.
    """

    name_key: str = "name"
    arguments_key: str = "arguments"
    style: JsonStyle = JsonStyle()
    id: "CallId | CallIndex | None" = None
    id_key: str = "id"
    id_first: bool = False


@dataclass(frozen=True)
class JsonArguments(ArgumentsHole):
    """A hole: the arguments as one JSON object; the name has a separate hole.

    Args:
        encoded: the object is the text of a JSON string: `"{\\"city\\": \\"Rome\\"}"`.
    """

    style: JsonStyle = JsonStyle()
    encoded: bool = False


@dataclass(frozen=True)
class TextWrapper:
    """Strings that contain one of these texts are written `opener TEXT closer`, as in XML's
    `<![CDATA[TEXT]]>`. Nothing is escaped inside.

    Args:
        triggers: the texts; ("",): the renderer wraps every string. A model may leave the wrapper
            out, and the mask allows that.
    """

    opener: str
    closer: str
    triggers: tuple[str, ...]

    def wraps(self, text: str) -> bool:
        """Returns whether this string is written in the wrapper."""
        return any(trigger in text for trigger in self.triggers)


@dataclass(frozen=True)
class TaggedArguments(ArgumentsHole):
    """A hole: each argument is between its own tags; strings are raw, other values JSON.

    An argument is written `open KEY after_key VALUE close`, or `open KEY after_key KIND after_kind
    VALUE close` if the format names its type; `end` follows the last one. Nothing is escaped, so a
    value ends only at `close` followed by `open` or `end`; a wrapped string, at the wrapper's
    closer followed by these.

    Args:
        close: the text after a value; "" if only the next tag ends one.
        close_key: the text after the key, if the key follows `close` (`</city>`). Then only
            declared keys can be written, since a context-free grammar cannot compare the two. None:
            no key follows.
        true, false, null: the accepted spellings, the template's own first.
        empty: the text instead of `end` if there are no arguments; None: `end`.
        kinds: JSON Schema types with the names that are written for them, `""` for all others; ():
            no types are written.
        wrapper: the text around some strings; None: all are written as they are.
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
        """Returns the tags of one argument, with the key in the closing text."""
        if self.close_key is None:
            return self
        return replace(self, close=self.close + key + self.close_key, close_key=None)

    @property
    def texts(self) -> tuple[str, ...]:
        around = (self.wrapper.opener, self.wrapper.closer) if self.wrapper else ()
        empty, close_key = self.empty or "", self.close_key or ""
        own = (self.open, self.after_key, self.close, self.end)
        return (*own, empty, self.after_kind, close_key, *around)

    @property
    def without_arguments(self) -> str:
        return self.end if self.empty is None else self.empty

    def find_kind(self, types: Sequence[str]) -> str:
        """Returns the text that is written for the first of these types that has one."""
        kinds = dict(self.kinds)
        return next((kinds[name] for name in types if name in kinds), kinds.get("", ""))

    @property
    def rest_of_end(self) -> str:
        """The rest of `end` that distinguishes it from another argument, if it begins like one (`<`
        of `</call>`); otherwise ""."""
        return self.end.removeprefix(self.open) if self.end.startswith(self.open) else ""


PYTHON = JsonStyle(
    quotes=("'", '"'),
    true=("True", "true"),
    false=("False", "false"),
    null=("None", "null"),
)
"""Values as Python's `repr` writes them; JSON's spellings are accepted, too."""


@dataclass(frozen=True)
class KeywordArguments(ArgumentsHole):
    """A hole: arguments by keyword, `KEY after_key VALUE`, separated by `item`: `first ARGUMENT
    (item ARGUMENT)* last`, or `empty` if there are none. Examples: a Python call, lines such as
    `key: value`, and any other list in which each value marks its own end.

    Strings are raw text between quotes of one kind, or Python strings between quotes of the other
    kind; only strings are quoted. Raw text may contain its own quote: it ends where the text after
    the quote can follow the string.

    Args:
        style: the spelling of values inside lists, and of all values except strings and objects.
        objects: the spelling of objects.
        strings: the spelling of strings with escapes; None: as in `style`.
        quote: the quote around raw text; "": every string has escapes.
        first, last: the text before the first argument, and the text after the last one.
        empty: the text if there are no arguments.
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
            raise TypeError("strings of KeywordArguments have single or double quotes, and escapes")

    @property
    def texts(self) -> tuple[str, ...]:
        return self.item, self.after_key, self.first, self.last, self.empty

    @property
    def escaped(self) -> JsonStyle:
        """The style of strings with escapes."""
        style = self.strings or self.style
        if not self.quote:
            return style
        others = tuple(quote for quote in PYTHON.quotes if quote != self.quote)
        return replace(style, quotes=others)


@dataclass(frozen=True)
class NestedArguments(ArgumentsHole):
    """A hole: each argument is between its own tags, and so are members of objects and items of
    lists.

    A value is written `mark<KEY> VALUE mark</KEY>`: strings as raw text that cannot contain the
    mark, objects as the tags of their members, lists as tags called `item`, other values as JSON.
    Empty values are written as nothing.

    Args:
        mark: the text before every tag.
    """

    mark: str
    item: str = "item"
    style: JsonStyle = JsonStyle()

    def __post_init__(self) -> None:
        if not self.mark:
            raise TypeError("nothing tells tags from text")

    @property
    def texts(self) -> tuple[str, ...]:
        return self.mark, self.open(self.item), self.close(self.item)

    @property
    def marks(self) -> tuple[str, ...]:
        return (self.mark,)

    def open(self, key: str) -> str:
        return f"{self.mark}<{key}>"

    def close(self, key: str) -> str:
        return f"{self.mark}</{key}>"


Hole: TypeAlias = JsonCall | JsonArguments | TaggedArguments | KeywordArguments | NestedArguments
Fixed: TypeAlias = Literal | Marker
Node: TypeAlias = Fixed | Name | CallId | CallIndex | Hole


def spell_fixed(nodes: Iterable[Node]) -> str:
    return "".join(node.text for node in nodes if isinstance(node, Fixed))
