"""Replaces patterns that jsonschema-rs cannot match itself: those that are large when their
quantifiers are expanded.

Its regex engine expands them while it holds the interpreter lock: `\\p{L}{1,255}` takes 100 ms, and
is refused for its size. Our lazy automaton only builds the states that a text needs, and agrees
with the mask. jsonschema-rs calls it as a format. The format goes into `allOf`, so that the schema
can also have another format.
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
"""The prefix of the name of a format that replaces a pattern."""
MAX_STEPS = 20_000
"""The limit for matching one text, in steps of up to 30 us. Longer texts count as not matching,
since they cannot be checked."""
MAX_NATIVE = 10_000
"""The largest pattern that jsonschema-rs compiles itself, in ranges of characters; it takes 10
ms."""
MIN_GROWTH = 10
"""A pattern is replaced if it expands to this many ranges per character; below this, its own text
is what makes it large."""

Formats = dict[str, Callable[[str], bool]]


def replace_large(document: Json) -> tuple[Json, Formats]:
    """Replaces the large patterns of a document with formats. Patterns without an automaton stay.

    Returns:
        the document, and the formats by name.
    """
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
    if ranges <= MAX_NATIVE or ranges < MIN_GROWTH * len(pattern):
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
