"""The patterns of a schema for jsonschema-rs: what they cost, and a replacement for some.

Its syntax is not quite that of ECMA 262: such a pattern is written in another way. (As in
`\\b`, which means Unicode's words there, or `[^]`, which is refused.)

Its regex engine writes out what is counted while it holds the interpreter lock: `\\p{L}{1,255}`
takes 100 ms. So each pattern is first compiled alone with little memory, which ends after a
millisecond. One that needs more is replaced, if it can be: our lazy automaton only builds the
states that a text needs, and agrees with the mask. jsonschema-rs calls it as a format. The format
goes into `allOf`, so that the schema can also have another format.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import jsonschema_rs

from grammars.limits.byte_cache import MIB, keep_results
from grammars.limits.steps import StepsError, limit_steps, spend
from grammars.regex.automaton import Automaton, compile_regexes
from grammars.regex.ecma import read_pattern, translate
from grammars.schema.json_values import Json, walk_values
from grammars.schema.pointers import point_to
from grammars.schema.subschemas import is_list, is_object, map_parts, omit

PREFIX = "pattern "
"""The prefix of the name of a format that replaces a pattern."""
MAX_STEPS = 20_000
"""The limit for matching one text, in steps of up to 30 us. Longer texts count as not matching,
since they cannot be checked."""
_SIZES = ((1 << 14, 10), (1 << 16, 50), (1 << 19, 500))
"""Bytes of compiled patterns, each with the steps that one up to this size takes."""
_MAX_REPLACED = 750
"""Characters of a large pattern that is replaced. The text of a longer one is what makes it large:
700 bytes for a class are usual."""
_LARGE_STEPS = 20_000
_READ = 8  # characters of a pattern that are read in a step
_ANY_CASE = re.compile(r"\(\?[A-Za-z]*i")
_FOLDED = re.compile(r"\\[pPWSDxu]|\[\^|[^\x00-\x7f]")
"""What may stand for a class in which the engine looks for the other case of all characters."""
_FOLDED_STEPS = 1_500

Formats = dict[str, Callable[[str], bool]]


def adapt_patterns(document: Json) -> tuple[Json, Formats]:
    """Replaces the patterns of a document that jsonschema-rs reads otherwise, or that are large,
    with formats; returns the document, and the formats by name. Large patterns without an automaton
    stay."""
    formats: Formats = {}
    if '"pattern' in json.dumps(document):
        document = _replace(document, formats, set())
    return document, formats


def spend_on_patterns(source: Json, formats: Formats) -> None:
    """Counts the steps of compiling all values that may be patterns of a schema, except those that
    automata replace in the formats of `adapt_patterns`; equal patterns are compiled once. If there
    are too many, the StepsError points to a pattern."""
    known = set[str]()
    for name, test in formats.items():
        if isinstance(test, _PatternAutomaton):  # which costs nothing before it is used
            known.add(name.removeprefix(PREFIX))
    for pattern in _list_patterns(source):
        if pattern in known:
            continue
        known.add(pattern)
        try:
            written = write_for_engine(pattern)
            spend(1 + len(written) // _READ)  # before it is read
            spend(count_steps(written))
        except StepsError as error:
            error.where = point_to(_find_pattern(source, pattern) or ())
            raise


def _list_patterns(source: Json) -> Iterator[str]:
    for value in filter(is_object, walk_values(source)):
        if isinstance(value.get("pattern"), str):
            yield value["pattern"]
        if is_object(value.get("patternProperties")):
            yield from value["patternProperties"]


def _find_pattern(value: Json, pattern: str) -> list[str | int] | None:
    """Returns the steps to a pattern; None if the value does not have it."""
    parts: Iterable[tuple[str | int, Json]] = ()
    if is_object(value):
        parts = value.items()
        if value.get("pattern") == pattern:
            return ["pattern"]
        if is_object(value.get("patternProperties")) and pattern in value["patternProperties"]:
            return ["patternProperties", pattern]
    elif is_list(value):
        parts = enumerate(value)
    for step, part in parts:
        found = _find_pattern(part, pattern)
        if found is not None:
            return [step, *found]
    return None


@keep_results("regexes", MIB)
def count_steps(pattern: str) -> int:
    """Returns the steps of compiling a pattern, which the engine itself tells: it stops at a limit
    of memory. A text that is no pattern has some number, too."""
    folded = 0
    if _ANY_CASE.search(pattern):
        folded = _FOLDED_STEPS * len(_FOLDED.findall(pattern))
    if folded >= _LARGE_STEPS:
        return folded
    for size, steps in _SIZES:
        options = jsonschema_rs.FancyRegexOptions(size_limit=size)
        try:
            jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=options)
        except ValueError:
            continue
        return steps + folded
    return folded + (_LARGE_STEPS if "{" in pattern else _FOLDED_STEPS)


def _replace(schema: Json, formats: Formats, measured: set[str]) -> Json:
    """Replaces the patterns of a schema; adds those that were measured to `measured`."""
    if not is_object(schema):
        return schema
    replaced = map_parts(schema, lambda part, _: _replace(part, formats, measured))
    keys = replaced.get("patternProperties")
    if is_object(keys):
        replaced["patternProperties"] = {write_for_engine(key): keys[key] for key in keys}
    pattern, parts = replaced.get("pattern"), replaced.get("allOf", [])
    if not isinstance(pattern, str) or not is_list(parts):
        return replaced
    written = write_for_engine(pattern)
    if written != pattern:
        return _use_format(replaced, parts, pattern, formats, _WrittenPattern(written))
    if "{" not in pattern or len(pattern) > _MAX_REPLACED:
        return replaced
    steps = count_steps(pattern)
    if pattern not in measured:
        measured.add(pattern)
        spend(min(steps, _SIZES[-1][1]))  # it was compiled, though it may have been before
    if steps < _LARGE_STEPS:
        return replaced
    regex = translate(pattern)
    automaton = None if regex is None else compile_regexes((regex,))
    if automaton is None:
        return replaced
    return _use_format(replaced, parts, pattern, formats, _PatternAutomaton(automaton))


def write_for_engine(pattern: str) -> str:
    """Returns a pattern as jsonschema-rs reads it."""
    reading = read_pattern(pattern)
    return pattern if reading is None else reading.engine


def _use_format(
    schema: dict[str, Json],
    parts: list[Json],
    pattern: str,
    formats: Formats,
    test: Callable[[str], bool],
) -> Json:
    """Returns the schema with a format in place of its pattern, beside the parts of its `allOf`;
    adds the format to `formats`."""
    name = PREFIX + pattern
    formats[name] = test
    return {**omit(schema, "pattern"), "allOf": [*parts, {"format": name}]}


@dataclass(frozen=True)
class _WrittenPattern:
    """The test of a pattern that is written in another way."""

    written: str

    @cached_property
    def _validator(self) -> jsonschema_rs.Validator:
        return jsonschema_rs.validator_for({"pattern": self.written})

    def __call__(self, text: str) -> bool:
        return self._validator.is_valid(text)


@dataclass(frozen=True)
class _PatternAutomaton:
    """The test of a pattern by an automaton of ours."""

    automaton: Automaton

    def __call__(self, text: str) -> bool:
        with suppress(StepsError, RecursionError), limit_steps(MAX_STEPS):
            return self.automaton.accepts(text)
        return False
