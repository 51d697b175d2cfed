"""What grammar, parser and renderer of tagged arguments share: spellings, and how types are
marked."""

from collections.abc import Callable, Iterable, Sequence

from grammars.regex.texts import SPACES, Texts, match_words
from grammars.schema.json_values import Json
from grammars.schema.nodes import (
    AnyValue,
    Array,
    Boolean,
    Constant,
    Flat,
    Null,
    Number,
    Object,
    String,
)
from grammars.spelling.styles import spell_number
from grammars.wire.format import MAX_NAME_LENGTH, TaggedArguments, find_kind, is_taggable

CONTAINER = r"[\[{]"
"""A regular expression for the beginning of an object or list."""


def express_key(tags: TaggedArguments) -> str:
    """Returns a regular expression for an undeclared key."""
    return rf"[^<>{SPACES}\x00-\x20{read_stops(tags)}]{{1,{MAX_NAME_LENGTH}}}"


def find_extra_keys(tags: TaggedArguments, declared: Sequence[str], keys: Texts) -> Texts:
    """Returns those of the keys that fit between these tags and are not declared."""
    return Texts((express_key(tags),), match_words(declared)).intersect(keys)


def is_key(key: str, tags: TaggedArguments) -> bool:
    """Returns whether these tags can have this key."""
    is_end = bool(tags.rest_of_end) and key.startswith(tags.rest_of_end[0])
    return is_taggable(key) and not is_end and not any(c in key for c in read_stops(tags))


def read_stops(tags: TaggedArguments) -> str:
    """Returns the characters that end a key."""
    return tags.after_key[:1].strip("\n")


def is_writable(value: Json, tags: TaggedArguments) -> bool:
    """Returns whether a constant can stand directly between these tags: it must not contain their
    end, or begin like a wrapper."""
    if not isinstance(value, str):
        return True
    if not tags.close:
        return all((value + tag).find(tag) == len(value) for tag in (tags.open, tags.end))
    ends = tags.close + tags.open[0]
    looks_wrapped = tags.wrapper is not None and value.startswith(tags.wrapper.opener)
    return not looks_wrapped and ends not in "\n" + value + tags.close


def is_wrappable(value: Json, tags: TaggedArguments) -> bool:
    """Returns whether a constant can stand between these tags in their wrapper: it must not contain
    their end."""
    if tags.wrapper is None or not isinstance(value, str):
        return False
    close = tags.wrapper.closer + tags.close
    return close + tags.open[0] not in value + close


def spell_string(text: str, tags: TaggedArguments) -> str:
    """Writes a string between these tags as the template does."""
    wrapper = tags.wrapper
    if wrapper is None or not wrapper.wraps(text):
        return text
    return wrapper.opener + text + wrapper.closer


def admits_any_text(branches: Iterable[Flat]) -> bool:
    """Returns whether any text is a value of one of these nodes."""
    return any(isinstance(b, AnyValue) or (isinstance(b, String) and b.is_free) for b in branches)


def excludes_containers(branches: Iterable[Flat]) -> bool:
    """Returns whether texts of these nodes must not begin like an object or list.

    The lexer would take an object that begins like a text for that text, and then limit its length
    to that of the text.
    """
    branches = list(branches)
    is_free = any(
        isinstance(b, AnyValue) or (isinstance(b, String) and b.is_free) for b in branches
    )
    return not is_free and any(isinstance(b, Object | Array) for b in branches)


def spell_words(
    value: Json, tags: TaggedArguments, spell: Callable[[Json], str]
) -> tuple[str, ...]:
    """Returns all spellings of a constant between these tags; `spell` writes values as JSON."""
    match value:
        case str():
            return (value,)
        case True:
            return tags.true
        case False:
            return tags.false
        case None:
            return tags.null
        case int() | float():
            return spell_number(value)
        case _:
            return (spell(value),)


def group_by_kind(
    nodes: Iterable[Flat], tags: TaggedArguments
) -> tuple[tuple[str, tuple[Flat, ...]], ...]:
    """Groups nodes by the type that the format writes for them; one group if it writes no types."""
    if not tags.kinds:
        return (("", tuple(nodes)),)
    groups: dict[str, list[Flat]] = {}
    for node in nodes:
        for single in _part(node):
            groups.setdefault(_find_node_kind(single, tags), []).append(single)
    return tuple((kind, tuple(group)) for kind, group in groups.items())


def _part(node: Flat) -> Iterable[Flat]:
    """Splits the node into nodes of one type each."""
    match node:
        case AnyValue():
            return (String(), Number(), Boolean(), Null(), Array(), Object())
        case Constant(values):
            return tuple(Constant((value,)) for value in values)
        case _:
            return (node,)


_EXAMPLES: tuple[tuple[type, Json], ...] = (
    (String, ""),
    (Boolean, True),
    (Null, None),
    (Array, []),
    (Object, {}),
)


def _find_node_kind(node: Flat, tags: TaggedArguments) -> str:
    if isinstance(node, Constant):
        return find_kind(tags, node.values[0])
    if isinstance(node, Number):
        return find_kind(tags, 0 if node.integer else 0.5)
    return find_kind(tags, next(example for kind, example in _EXAMPLES if isinstance(node, kind)))


def list_text_kinds(tags: TaggedArguments) -> frozenset[str]:
    """Returns the type names that mark a value as text."""
    return frozenset([find_kind(tags, "")] if tags.kinds else [])
