"""Writes GBNF, llama.cpp's grammar language, for versions that know tokens by number (`<[5]>`).

Limits of its reader decide how the rules are written:

- It reads a count above 2,000 as no limit at all. So a repetition is written as a few rules that
  refer to each other, without counts.
- It does not support left recursion.
- A negated set also accepts bytes that are not UTF-8. So sets are written by their members.
- U+0000 ends a text for it. So no set has that character.
"""

from grammars.emit.context_free import ContextFreeGrammar, find_left_recursion
from grammars.emit.rules_text import Notation, write_rules
from grammars.errors import CannotEmitError
from grammars.regex.characters import Characters
from grammars.turn_grammar.ir.nodes import Token


def _write_token(token: Token) -> str:
    return f"<[{token.id}]>"


_NOTATION = Notation("GBNF", _write_token, Characters.of("\0").complement())


def write_gbnf(grammar: ContextFreeGrammar) -> str:
    """Writes the grammar for llama.cpp.

    Raises:
        CannotEmitError: it is left-recursive, or a text has U+0000.
    """
    recursive = find_left_recursion(grammar.rules)
    if recursive is not None:
        raise CannotEmitError(
            "a value may begin with a value of the same kind, which llama.cpp cannot read",
            where=grammar.origins[recursive],
            hint="Resolve the reference of the schema to itself, or emit lark",
        )
    return write_rules(grammar, _NOTATION)
