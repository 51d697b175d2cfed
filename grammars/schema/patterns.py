"""Patterns that jsonschema-rs does not compare itself: those that are large once their counts are
written out.

The engine below it writes them out, under the interpreter's lock: `\\p{L}{1,255}` takes 100 ms, and
is refused for its size. An automaton of ours grows as far as a text leads, and says the same as the
mask. jsonschema-rs calls it as a format; a format stands in `allOf`, so that the one of the schema
itself stays.
"""

import json
from collections.abc import Callable
from functools import partial

from grammars.regex.automaton import Automaton, compile_regexes
from grammars.regex.compiled_size import estimate_ranges
from grammars.regex.ecma import translate
from grammars.schema.subschemas import Json, is_list, is_object, map_parts
from grammars.steps import StepsError, limit_steps, spend

PREFIX = "pattern "
"""In front of a pattern in the name of its format."""
MAX_STEPS = 20_000
"""Of comparing a text, up to 30 us each. A text that takes more does not match: what cannot be
checked is not let through."""
MAX_NATIVE = 10_000
"""Ranges of characters of a pattern that jsonschema-rs compiles itself, in 10 ms."""
LEAST_GROWTH = 10
"""Ranges for each character of a pattern; of one with fewer, the text itself is what is large."""

Formats = dict[str, Callable[[str], bool]]


def replace_large(document: Json) -> tuple[Json, Formats]:
    """The document with formats in place of the patterns that are large, and these formats by name.
    A pattern that has no automaton stays what it is."""
    formats: Formats = {}
    if '"pattern"' in json.dumps(document):
        document = _replace(document, formats)
    return document, formats


def _replace(schema: Json, formats: Formats) -> Json:
    if not is_object(schema):
        return schema
    spend()
    replaced = map_parts(schema, lambda part, _: _replace(part, formats))
    pattern, parts = replaced.get("pattern"), replaced.get("allOf", [])
    if not isinstance(pattern, str) or not is_list(parts):
        return replaced
    ranges = estimate_ranges(pattern)
    if ranges <= MAX_NATIVE or ranges < LEAST_GROWTH * len(pattern):
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
        with limit_steps(MAX_STEPS):
            return automaton.accepts(text)
    except (StepsError, RecursionError):
        return False
