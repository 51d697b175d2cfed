"""How arguments are written between tags: read off calls with none, one and two of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from grammars.errors import DetectError
from grammars.infer.probes import KEYS, VALUES
from grammars.infer.styles import find_style
from grammars.infer.text import common_prefix, common_suffix, find_tag
from grammars.schema.nodes import Json
from grammars.wire.format import JsonStyle, TaggedArguments

Inside = Callable[[Mapping[str, Json]], str]
"""The text of a call with these arguments, from behind its name to its end."""

_SCALARS: dict[str, tuple[Json, tuple[str, ...]]] = {
    "string": (VALUES[0], (VALUES[0],)),
    "integer": (12345, ("12345",)),
    "number": (1.5, ("1.5",)),
    "boolean": (True, ("true", "True")),
    "null": (None, ("null", "None")),
}
_WORDS: dict[str, Json] = {"true": True, "false": False, "null": None}
_OWN: dict[str, tuple[str, ...]] = {
    "true": ("true", "True"),
    "false": ("false", "False"),
    "null": ("null", "None"),
}
_CONTAINERS: dict[str, Json] = {
    "array": [1, "é/", [True, None], {"b": False, "A": 1.5}],
    "object": {"b": [1, "é/", True], "A": {"deep": None}, "c": False},
}


@dataclass(frozen=True)
class Tagged:
    """Arguments between tags, the fixed text in front of them, and what is left of the call."""

    before: str
    hole: TaggedArguments
    rest: str


def infer_tagged(inside: Inside, suffix: str) -> Tagged:
    """How arguments are written between tags.

    Args:
        inside: writes a call with given arguments.
        suffix: what stands behind the last value, to the end of the call.

    Raises:
        DetectError: the texts tell of no such tags.
    """
    head, opener, close = _read_tags(inside, suffix)
    end, rest = _cut_end(suffix[len(close) :])
    before = head[: len(head) - len(opener)]
    values = _Values(inside, head + KEYS[0], suffix)
    after_key, kinds, after_kind = _tell_kinds(values.kinds())
    hole = TaggedArguments(
        opener,
        after_key,
        close,
        end,
        *map(values.spell_word, _WORDS),
        style=values.style(),
        empty=_read_empty(inside({}), before, end, rest),
        kinds=kinds,
        after_kind=after_kind,
    )
    return Tagged(before, hole, rest)


def _read_tags(inside: Inside, suffix: str) -> tuple[str, str, str]:
    """What stands in front of the first key, what of that opens an argument, what closes one."""
    one = inside({KEYS[0]: VALUES[0]})
    two = inside(dict(zip(KEYS[:2], VALUES, strict=False)))
    head = one.partition(KEYS[0])[0]
    middle = two.partition(VALUES[0])[2].partition(KEYS[1])[0]
    if KEYS[1] not in two or not one.endswith(VALUES[0] + suffix):
        raise DetectError("arguments are not written one after the other")
    opener = common_suffix(head, middle).lstrip()
    close = middle[: len(middle) - len(opener)]
    if not opener or not close or not suffix.startswith(close):
        raise DetectError(f"nothing of its own stands around an argument: {one!r}")
    return head, opener, close


def _cut_end(text: str) -> tuple[str, str]:
    """What closes the arguments: up to the first tag; and what is left."""
    tag = find_tag(text)
    return (text[: tag.end()], text[tag.end() :]) if tag else (text, "")


def _read_empty(text: str, before: str, end: str, rest: str) -> str | None:
    if not text.startswith(before) or not text.endswith(rest):
        raise DetectError(f"a call without arguments is written in another way: {text!r}")
    empty = text[len(before) : len(text) - len(rest)]
    return None if empty == end else empty


@dataclass(frozen=True)
class _Values:
    """Calls with one argument, of each type."""

    inside: Inside
    head: str
    suffix: str

    def written(self, value: Json) -> str | None:
        """What stands between key and end of the value; None if the argument is left out."""
        text = self.inside({KEYS[0]: value})
        if not text.startswith(self.head):
            return None
        if not text.endswith(self.suffix):
            raise DetectError(f"the argument {value!r} is closed in another way: {text!r}")
        return text[len(self.head) : len(text) - len(self.suffix)]

    def spell_word(self, word: str) -> tuple[str, ...]:
        """The spellings of true, false or null, the template's own first."""
        text = self.written(_WORDS[word]) or word
        own = next((w for w in _OWN[word] if text.endswith(w)), None)
        if own is None:
            raise DetectError(f"{word} is not written as a word: {text!r}")
        return (own,) if own == word else (own, word)

    def kinds(self) -> dict[str, str]:
        """What stands between the key and a value, for each type."""
        found: dict[str, str] = {}
        for kind, (value, spellings) in _SCALARS.items():
            text = self.written(value)
            own = next((s for s in spellings if text and text.endswith(s)), None)
            if text is not None and own is None:
                raise DetectError(f"{value!r} is written in an unknown way: {text!r}")
            if text is not None and own is not None:
                found[kind] = text.removesuffix(own)
        between = min(found.values(), key=len)
        for kind, value in _CONTAINERS.items():
            text = self.written(value) or ""
            bracket = text.find("[" if kind == "array" else "{", min(len(between), len(text)) - 1)
            if bracket < 0:
                raise DetectError(f"{value!r} is written in an unknown way: {text!r}")
            found[kind] = text[:bracket]
        return found

    def style(self) -> JsonStyle:
        """How lists and objects are spelled."""
        pairs: list[tuple[Json, str]] = []
        for kind, value in _CONTAINERS.items():
            text = self.written(value) or ""
            pairs.append((value, text[text.find("[" if kind == "array" else "{") :]))
        style = find_style(*pairs)
        if style is None:
            raise DetectError(f"lists and objects are written in an unknown way: {pairs[1][1]!r}")
        return style


def _tell_kinds(found: dict[str, str]) -> tuple[str, tuple[tuple[str, str], ...], str]:
    """What follows a key, how types are told behind it, and what follows that."""
    texts = list(found.values())
    if len(set(texts)) == 1:
        return texts[0], (), ""
    after_key = common_prefix(*texts)
    after_kind = common_suffix(*(text[len(after_key) :] for text in texts))
    told = {
        kind: text[len(after_key) : len(text) - len(after_kind)] for kind, text in found.items()
    }
    if told.get("integer") == told.get("number"):
        told.pop("integer", None)
    others = [text for kind, text in told.items() if kind != "string"]
    usual = max(others, key=others.count)
    kinds = [(kind, text) for kind, text in told.items() if text != usual]
    return after_key, (*kinds, ("", usual)), after_kind
