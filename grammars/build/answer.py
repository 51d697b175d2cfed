"""Answers in Lark: content that has to fit a schema, an expression, a choice or a grammar."""

from collections.abc import Sequence

from grammars.build.values import Rules, escape_regex, quote
from grammars.errors import PolicyError
from grammars.regex.ecma import translate
from grammars.turn import Answer, ChoiceAnswer, GrammarAnswer, JsonAnswer, RegexAnswer

_WHERE = "/response_format"


def answer_rule(
    answer: Answer, rules: Rules, openings: Sequence[str] = (), others: Sequence[str] = ()
) -> str:
    """A rule for the content of the turn.

    Args:
        answer: what the content has to be.
        rules: the grammar under way.
        openings: what opens a call where the turn may also be calls; the answer begins otherwise.

        others: what opens something else that an answer could be read as (the reasoning).

    Raises:
        PolicyError: the answer cannot be enforced, or not beside calls.
    """
    match answer:
        case JsonAnswer(schema):
            return rules.value(schema.node, schema.definitions)
        case RegexAnswer(regex):
            words = "|".join(map(escape_regex, (*openings, *others)))
            beside = rf" & ~/\s*({words})(?s:.*)/" if words else ""
            return rules.terminal(f"/{read_regex(regex)}/{beside}", "ANSWER")
        case ChoiceAnswer(options):
            for number, option in enumerate(options):
                _check_option(option, openings, number)
            return rules.define(" | ".join(map(quote, dict.fromkeys(options))), "answer")
        case GrammarAnswer(lark):
            if openings:
                hint = "Use tool_choice none, or a schema, expression or choice"
                raise PolicyError("a grammar cannot stand beside tools", where=_WHERE, hint=hint)
            return rules.define(f"%lark {{\n{lark.strip()}\n}}", "answer")


def read_regex(regex: str) -> str:
    """A regular expression for the whole answer, in Rust syntax, fit for `/.../` in Lark.

    Raises:
        PolicyError: it uses what a mask cannot hold.
    """
    bare = regex.removeprefix("^")
    ends = bare.endswith("$") and (len(bare) - len(bare[:-1].rstrip("\\"))) % 2 == 1
    translated = translate(f"^(?:{bare[:-1] if ends else bare})$")
    if translated is None:
        raise PolicyError(
            f"the expression {regex!r} cannot be enforced",
            where=_WHERE,
            hint="Leave out look-around, \\b, back references and anchors in the middle",
        )
    return translated.replace("\\/", "/").replace("/", "\\/")


def _check_option(option: str, openings: Sequence[str], number: int) -> None:
    if not option:
        raise PolicyError("an empty choice", where=f"{_WHERE}/{number}", hint="Leave it out")
    if any(option.lstrip().startswith(opening) for opening in openings):
        hint = "Use tool_choice none, or another choice"
        message = f"the choice {option!r} begins as a call does"
        raise PolicyError(message, where=f"{_WHERE}/{number}", hint=hint)
