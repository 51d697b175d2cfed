"""Patterns that jsonschema-rs does not compare itself: those that count letters of all scripts.

The engine below it unrolls what is counted, and the class `\\p{L}` has some 600 ranges:
`\\p{L}{1,255}` takes it 100 ms under the interpreter's lock, and is refused for its size. An
automaton of ours grows as far as a text leads, and says the same as the mask. jsonschema-rs calls
it as a format; a format stands in `allOf`, so that the one of the schema itself stays.
"""

import json
import re
from collections.abc import Callable
from functools import partial

from grammars.regex.automaton import Automaton, compile_regexes
from grammars.regex.ecma import translate
from grammars.schema.subschemas import Json, is_list, is_object, map_parts
from grammars.steps import StepsError, limit_steps, spend

PREFIX = "pattern "
"""In front of a pattern in the name of its format."""
MOST_STEPS = 20_000
"""Of comparing a text, up to 30 us each. A text that takes more does not match: what cannot be
checked is not let through."""
_COUNTS_LETTERS = re.compile(r"(?s)(?=.*\\[pP]\{).*\{\d")

Formats = dict[str, Callable[[str], bool]]


def replace_counted(document: Json) -> tuple[Json, Formats]:
    """The document with formats in place of the patterns that count, and these formats by name. A
    pattern that has no automaton stays what it is."""
    formats: Formats = {}
    if _COUNTS_LETTERS.match(json.dumps(document)):
        document = _replace(document, formats)
    return document, formats


def _replace(schema: Json, formats: Formats) -> Json:
    if not is_object(schema):
        return schema
    spend()
    replaced = map_parts(schema, lambda part, _: _replace(part, formats))
    pattern, parts = replaced.get("pattern"), replaced.get("allOf", [])
    if not isinstance(pattern, str) or not _COUNTS_LETTERS.match(pattern) or not is_list(parts):
        return replaced
    regex = translate(pattern)
    automaton = None if regex is None else compile_regexes((regex,))
    if automaton is None:
        return replaced
    name = PREFIX + pattern
    formats[name] = partial(_accepts, automaton)
    del replaced["pattern"]
    return {**replaced, "allOf": [*parts, {"format": name}]}


def _accepts(automaton: Automaton, text: str) -> bool:
    try:
        with limit_steps(MOST_STEPS):
            return automaton.accepts(text)
    except (StepsError, RecursionError):
        return False
