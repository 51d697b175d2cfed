"""Expressions over characters as expressions over how a kind of string spells them."""

from collections.abc import Callable

from grammars.regex.characters import Characters
from grammars.regex.expressions import Blank, Chain, Either, Expression, One, Repeat
from grammars.regex.reader import UnreadableError


def spell_expression(expression: Expression, spell_one: Callable[[Characters], str]) -> str:
    """The expression over spellings.

    Args:
        expression: made of sets of characters, one behind the other, side by side or repeated.
        spell_one: writes the spellings of one character of a set.

    Raises:
        UnreadableError: it is made of something else.
    """
    match expression:
        case Blank():
            return ""
        case One(characters):
            return spell_one(characters)
        case Chain(first, rest):
            return spell_expression(first, spell_one) + spell_expression(rest, spell_one)
        case Either(options):
            return "(" + "|".join(sorted(spell_expression(o, spell_one) for o in options)) + ")"
        case Repeat(body, fewest, most):
            times = f"{{{fewest},{'' if most is None else most}}}"
            return f"({spell_expression(body, spell_one)}){times}"
        case _:
            raise UnreadableError("an empty set")


def write_spellings(raw: Characters, escapes: list[str]) -> str:
    """One character: one of these as it is, or a backslash and one of these expressions.

    Raises:
        UnreadableError: there is none.
    """
    ranges = "".join("-".join(map(write_code, dict.fromkeys(r))) for r in raw.ranges)
    options = [f"[{ranges}]"] if ranges else []
    if escapes:
        options.append(rf"\\({'|'.join(escapes)})")
    if not options:
        raise UnreadableError("an empty set")
    return f"({'|'.join(options)})"


def write_code(code: int) -> str:
    """The character with that code point, in an expression."""
    return rf"\x{{{code:x}}}"
