"""Rewrites expressions so that they match texts inside a JSON string: for arguments that are JSON
in a string."""

import json
from dataclasses import replace

from grammars.errors import SchemaError
from grammars.regex.characters import Characters
from grammars.regex.reader import UnreadableError, read
from grammars.regex.spelled import spell_expression, write_spellings
from grammars.regex.writing import write_code
from grammars.turn_grammar.ir import nodes as ir

_ESCAPED = {chr(code): json.dumps(chr(code))[1:-1] for code in (*range(0x20), 0x22, 0x5C)}
"""The JSON escape of each character that a JSON string cannot contain directly."""
_PLAIN = Characters.of("".join(_ESCAPED)).complement()


_HEX = "[0-9a-fA-F]"
_BEYOND_ASCII = (
    rf"\\u(?:00[89a-fA-F]{_HEX}|0[1-9a-fA-F]{_HEX}{{2}}|[1-9a-cA-CefEF]{_HEX}{{3}}"
    rf"|[dD][0-7]{_HEX}{{2}}|[dD][89abAB]{_HEX}{{2}}\\u[dD][c-fC-F]{_HEX}{{2}})"
)


def encode_text(*, ascii: bool) -> ir.Expression:
    """Returns an expression for any text as it stands in a JSON string, without the quotes. With
    `ascii`, characters beyond ASCII may also be written by their numbers."""
    if not ascii:
        return encode(ir.ANY_TEXT)
    character = encode(ir.Pattern("(?s:.)"))
    assert isinstance(character, ir.Pattern)
    return ir.Pattern(f"(?:{character.regex}|{_BEYOND_ASCII})+")


def encode(expression: ir.Expression) -> ir.Expression:
    """Rewrites an expression to match its texts as they stand in a JSON string, without the quotes.
    Raises SchemaError if a regular expression in it cannot be parsed.

    Each text has exactly one encoding, so complements and intersections of texts carry over to
    their encodings.
    """
    if expression == ir.EVERYTHING:  # not a set of texts, so there is nothing to encode
        return expression
    match expression:
        case ir.Literal(text):
            return ir.Literal("".join(_ESCAPED.get(character, character) for character in text))
        case ir.Pattern(regex):
            try:
                return ir.Pattern(spell_expression(read(regex), _encode_set))
            except (UnreadableError, RecursionError) as error:
                message = f"a pattern cannot be enforced in a string that contains JSON: {error}"
                raise SchemaError(message, hint="Use a simpler pattern, or none") from error
        case ir.Intersection(parts) | ir.Sequence(parts):
            return replace(expression, parts=tuple(map(encode, parts)))
        case ir.Alternatives(options):
            return ir.Alternatives(tuple(map(encode, options)))
        case ir.Complement(inner):
            return ir.Complement(encode(inner))
        case ir.Repeat(body) | ir.Guarded(body) | ir.Costly(body):
            return replace(expression, body=encode(body))
        case ir.RuleReference() | ir.JsonSchema():
            return expression  # rules are encoded already; `%json` holds only numbers
        case ir.Token() | ir.EmbeddedLark():
            raise TypeError("no part of a JSON value")


def _encode_set(characters: Characters) -> str:
    """Returns a regular expression for one character of a set, escaped where JSON requires it."""
    escapes: list[str] = []
    for character, escaped in _ESCAPED.items():
        if character in characters:
            escapes.append("".join(write_code(ord(part)) for part in escaped[1:]))
    return write_spellings(characters.intersect(_PLAIN), escapes)
