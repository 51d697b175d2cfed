"""Grammars of answers: content of a given form."""

import re
import reprlib
from collections.abc import Sequence

from grammars.errors import PolicyError
from grammars.regex.ecma import find_fault, translate
from grammars.regex.ecma_parser import MAX_QUANTIFIERS
from grammars.regex.writing import match_any
from grammars.turn import Answer, ChoiceAnswer, GrammarAnswer, JsonAnswer, RegexAnswer
from grammars.turn_grammar.ir import nodes as ir
from grammars.turn_grammar.terminals import match_regex
from grammars.turn_grammar.values import Values, choose_word

_POINTER = "/response_format"
_REGEX = "/regex"
_SURROGATE = re.compile("[\ud800-\udfff]")
MAX_CHOICES = 10_000
"""The same limit as for an enum: llguidance's parser has room for 20,000 items in a row."""


def write_answer(
    answer: Answer, values: Values, openings: Sequence[str] = (), others: Sequence[str] = ()
) -> ir.Expression:
    """Returns the expression for the content of a turn, which may begin neither with `openings` of
    calls, if the turn may have calls instead, nor with `others` (the opener of the reasoning)."""
    match answer:
        case JsonAnswer(schema):
            return values.value(schema.node, schema.definitions)
        case RegexAnswer(regex):
            pattern = read_regex(regex)
            words = [*openings, *others]
            if words:
                pattern = ir.intersection(pattern, ir.exclude_beginning(rf"\s*{match_any(words)}"))
            return values.builder.terminal(pattern, "ANSWER")
        case ChoiceAnswer(options):
            if len(options) > MAX_CHOICES:
                message = f"there are {len(options):,} choices, the limit is {MAX_CHOICES:,}"
                raise PolicyError(message, where="/choice", hint="Offer fewer, or use a regex")
            for number, option in enumerate(options):
                where = f"{_POINTER}/{number}"
                if not option:
                    raise PolicyError("a choice is empty", where=where, hint="Leave it out")
                if option.lstrip().startswith(tuple(openings)):
                    hint = "Use tool_choice none, or another choice"
                    message = f"the choice {option!r} starts like a call"
                    raise PolicyError(message, where=where, hint=hint)
            return values.builder.define(choose_word(options), "answer")
        case GrammarAnswer(lark):
            if openings:
                hint = "Use tool_choice none, or a schema, expression or choice"
                raise PolicyError(
                    "a grammar cannot be combined with tools", where=_POINTER, hint=hint
                )
            return values.builder.define(ir.EmbeddedLark(lark.strip()), "answer")


def read_regex(regex: str) -> ir.Expression:
    """Returns a regular expression for the whole answer, as part of a terminal. Raises PolicyError
    if a mask cannot enforce it."""
    if not regex.isascii() and _SURROGATE.search(regex):
        message = "the expression has a lone surrogate, which is not valid in text"
        raise PolicyError(message, where=_REGEX, hint="Replace it")
    bare = regex.removeprefix("^")
    if bare.endswith("$"):
        before = bare[:-1]
        backslashes = len(before) - len(before.rstrip("\\"))
        if backslashes % 2 == 0:  # otherwise the `$` is escaped
            bare = before
    translated = translate(f"^(?:{bare})$")
    if translated is None:
        fault = find_fault(regex)
        if fault is not None:
            reason, at = fault
            raise PolicyError(
                f"the regular expression is not valid at character {at + 1}: {reason}",
                where=_REGEX,
                hint="Write it in the syntax of JavaScript",
            )
        raise PolicyError(
            f"the expression {reprlib.repr(regex)} cannot be enforced",
            where=_REGEX,
            hint="Leave out back references and possessive quantifiers, and use at most "
            f"{MAX_QUANTIFIERS:,} quantifiers",
        )
    return match_regex(translated)
