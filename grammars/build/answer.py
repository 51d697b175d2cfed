"""Answers: content that has to fit a schema, an expression, a choice or a grammar."""

import re
import reprlib
from collections.abc import Sequence

from grammars.build.values import Values, choose_word
from grammars.errors import PolicyError
from grammars.ir.nodes import (
    EmbeddedLark,
    Expression,
    Pattern,
    intersection,
    unlike,
)
from grammars.regex.ecma import MAX_QUANTIFIERS, translate
from grammars.regex.writing import escape_slashes, match_any
from grammars.turn import Answer, ChoiceAnswer, GrammarAnswer, JsonAnswer, RegexAnswer

_WHERE = "/response_format"
_SURROGATE = re.compile("[\ud800-\udfff]")
MAX_CHOICES = 10_000
"""As of an enum: each is an item of llguidance's parser, which has room for 20,000 in a row."""


def write_answer(
    answer: Answer, values: Values, openings: Sequence[str] = (), others: Sequence[str] = ()
) -> Expression:
    """The content of the turn.

    Args:
        answer: what the content has to be.
        values: the grammar under way, and how JSON is spelled in it.
        openings: what opens a call where the turn may also be calls; the answer begins otherwise.
        others: what opens something else that an answer could be read as (the reasoning).

    Raises:
        PolicyError: the answer cannot be enforced, or not beside calls.
        SchemaError: a schema that this format cannot write.
    """
    match answer:
        case JsonAnswer(schema):
            return values.value(schema.node, schema.definitions)
        case RegexAnswer(regex):
            pattern: Expression = Pattern(read_regex(regex))
            words = [*openings, *others]
            if words:
                pattern = intersection(pattern, unlike(rf"\s*{match_any(words)}"))
            return values.builder.terminal(pattern, "ANSWER")
        case ChoiceAnswer(options):
            if len(options) > MAX_CHOICES:
                message = f"there are {len(options):,} choices, the limit is {MAX_CHOICES:,}"
                raise PolicyError(message, where="/choice", hint="Offer fewer, or use a regex")
            for number, option in enumerate(options):
                _check_option(option, openings, number)
            return values.builder.define(choose_word(options), "answer")
        case GrammarAnswer(lark):
            if openings:
                hint = "Use tool_choice none, or a schema, expression or choice"
                raise PolicyError(
                    "a grammar cannot be combined with tools", where=_WHERE, hint=hint
                )
            return values.builder.define(EmbeddedLark(lark.strip()), "answer")


def read_regex(regex: str) -> str:
    """A regular expression for the whole answer, in Rust syntax, fit for `/.../` in Lark.

    Raises:
        PolicyError: it uses what a mask cannot hold.
    """
    if not regex.isascii() and _SURROGATE.search(regex):
        message = "the expression has a lone surrogate, which no text has"
        raise PolicyError(message, where=_WHERE, hint="Replace it")
    bare = regex.removeprefix("^")
    if bare.endswith("$"):
        before = bare[:-1]
        backslashes = len(before) - len(before.rstrip("\\"))
        if backslashes % 2 == 0:  # else it is an escaped one
            bare = before
    translated = translate(f"^(?:{bare})$")
    if translated is None:
        raise PolicyError(
            f"the expression {reprlib.repr(regex)} cannot be enforced",
            where=_WHERE,
            hint="Leave out look-around, \\b, back references and anchors in the middle, and "
            f"use {MAX_QUANTIFIERS:,} quantifiers at most",
        )
    return escape_slashes(translated)


def _check_option(option: str, openings: Sequence[str], number: int) -> None:
    if not option:
        raise PolicyError("a choice is empty", where=f"{_WHERE}/{number}", hint="Leave it out")
    if any(option.lstrip().startswith(opening) for opening in openings):
        hint = "Use tool_choice none, or another choice"
        message = f"the choice {option!r} starts like a call"
        raise PolicyError(message, where=f"{_WHERE}/{number}", hint=hint)
