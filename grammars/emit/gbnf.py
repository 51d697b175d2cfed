"""GBNF, the grammars of llama.cpp, which has to know tokens by their numbers (`<[5]>`).

What its reader makes of some texts decides how they are written here:

- A count beyond 2,000 is read as no limit at all. So no counts are written: a repetition is a few
  rules that refer to each other.
- It has no left recursion.
- A negated set takes bytes that are no UTF-8. So sets are written by what is in them.
- It cannot see U+0000, which ends a text for it. So no set has it.
"""

from grammars.emit.context_free import ContextFreeGrammar, find_left_recursion
from grammars.emit.rules_text import Notation, write_rules
from grammars.errors import CannotEmitError
from grammars.ir.nodes import Token
from grammars.regex.characters import Characters


def _write_token(token: Token) -> str:
    return f"<[{token.id}]>"


_NOTATION = Notation("GBNF", _write_token, Characters.of("\0").invert())


def write_gbnf(grammar: ContextFreeGrammar) -> str:
    """The grammar as llama.cpp reads it.

    Raises:
        CannotEmitError: it is left-recursive, or some text has U+0000 in it.
    """
    recursive = find_left_recursion(grammar.rules)
    if recursive is not None:
        raise CannotEmitError(
            "a value may begin with a value of the same kind, which llama.cpp cannot read",
            where=grammar.origins[recursive],
            hint="Resolve the reference of the schema to itself, or emit lark",
        )
    return write_rules(grammar, _NOTATION)
