"""Arguments of a call in Python, `name(key=value, ...)`, and such on lines of their own, read off
calls with none, one and two."""

import re
from dataclasses import dataclass

from grammars.errors import DetectError
from grammars.infer.arguments import ARRAY, OBJECT, WriteCall
from grammars.infer.probes import KEYS, VALUES
from grammars.infer.styles import find_style
from grammars.schema.nodes import Json
from grammars.wire.format import JsonStyle, PythonArguments

_KEY, _VALUE = re.escape(KEYS[0]), re.escape(VALUES[0])
_CALL = re.compile(
    rf"(?P<before>.*?){_KEY}(?P<after_key>\s*[=:]\s*)(?P<quote>[\"']){_VALUE}(?P=quote)(?P<rest>.+)",
    re.DOTALL,
)
_ITEM = re.compile(r"\s*[,;]\s*|\s*\n\s*")
_HARD = """it's "so" \\ `x`"""
_WORDS: tuple[Json, ...] = (True, False, None)


@dataclass(frozen=True)
class PythonCall:
    """The arguments, the fixed text in front of them, and the rest of the call."""

    before: str
    hole: PythonArguments
    rest: str


def infer_python(write_call: WriteCall) -> PythonCall | None:
    """What a call writes around its arguments; None if it is none in Python.

    Args:
        write_call: writes a call with given arguments.

    Raises:
        DetectError: it looks like one, but its values are spelled in an unknown way.
    """
    one = _CALL.fullmatch(write_call({KEYS[0]: VALUES[0]}))
    if one is None:
        return None
    before, after_key = one["before"], one["after_key"]
    quote, rest = one["quote"], one["rest"]
    two = write_call({KEYS[0]: VALUES[0], KEYS[1]: VALUES[1]})
    head = before + KEYS[0] + after_key + quote + VALUES[0] + quote
    item = two.removeprefix(head).partition(KEYS[1])[0]
    if not two.startswith(head) or not _ITEM.fullmatch(item):
        return None
    leads = "\n" in item and before.endswith(item)
    opener = before.removesuffix(item) if leads else before

    def spell_argument(value: Json) -> str:
        text = write_call({KEYS[0]: value})
        start = before + KEYS[0] + after_key
        if not text.startswith(start) or not text.endswith(rest):
            raise DetectError(f"the argument {value!r} is closed in another way: {text!r}")
        return text[len(start) : len(text) - len(rest)]

    words = [(word, spell_argument(word)) for word in _WORDS]
    style = _require_style((ARRAY, spell_argument(ARRAY)), *words)
    objects = _require_style((OBJECT, spell_argument(OBJECT)))
    if spell_argument(_HARD) != quote + _HARD + quote:
        quote = ""
    hole = PythonArguments(item, after_key, style, objects, quote, leads)
    return PythonCall(opener, hole, rest)


def _require_style(*pairs: tuple[Json, str]) -> JsonStyle:
    style = find_style(*pairs)
    if style is None:
        raise DetectError(f"values are written in an unknown way: {pairs[0][1]!r}")
    return style
