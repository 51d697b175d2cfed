"""Writes the grammar of a turn in the language of another engine."""

from collections.abc import Callable, Mapping

from grammars.emit.expansion import expand
from grammars.emit.gbnf import write_gbnf
from grammars.emit.structural_tag import write_structural_tag
from grammars.errors import CannotEmitError
from grammars.turn_grammar.ir.grammar import Grammar


def _write_lark(grammar: Grammar) -> str:
    return grammar.lark


def _emit_gbnf(grammar: Grammar) -> str:
    return write_gbnf(expand(grammar))


def _emit_structural_tag(grammar: Grammar) -> str:
    return write_structural_tag(expand(grammar))


_EMITTERS: Mapping[str, Callable[[Grammar], str]] = {
    "lark": _write_lark,
    "gbnf": _emit_gbnf,
    "structural-tag": _emit_structural_tag,
}
LANGUAGES = tuple(_EMITTERS)


def emit(grammar: Grammar, language: str) -> str:
    """Writes the grammar in another language, exactly: it accepts the same texts, or the call
    fails.

    Args:
        language: one of `LANGUAGES`: `lark` (llguidance), `gbnf` (llama.cpp), `structural-tag`
            (XGrammar).

    Raises:
        CannotEmitError: the language cannot express it; `where` is the rule that causes it.
    """
    emitter = _EMITTERS.get(language)
    if emitter is None:
        raise CannotEmitError(
            f"there is no language {language!r}", hint=f"Known: {', '.join(LANGUAGES)}"
        )
    return emitter(grammar)
