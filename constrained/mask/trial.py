"""Grammars of clients are compiled on trial first, in a process that can be ended, see
`kept_process`.

llguidance's own limits do not hold for all grammars: complements and conjunctions of regular
expressions can keep it busy for hours, and nothing can interrupt it.
"""

import json
from collections.abc import Collection
from typing import Any

from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.errors import GrammarError
from constrained.limits.kept_process import KeptProcesses, ProcessLimitError
from constrained.mask.matcher import NOT_VALID, explain_failure

SECONDS = 3.0  # of processor time; usual grammars take milliseconds
_HINT = "Ask for something simpler: fewer rules, fewer bounds, no `&` and `~` of long expressions"
_PROCESSES = KeptProcesses("constrained.mask.trial_process")


class TrialError(GrammarError):
    """A grammar of a client cannot be compiled."""


def try_grammar(lark: str, vocabulary: Vocabulary, markers: Collection[int]) -> None:
    """Compiles a grammar in another process.

    Args:
        markers: the ids of markers that are one token, see `build_tokenizer`.

    Raises:
        TrialError: it is not valid, or takes more time or memory than it may.
    """
    special = sorted({*vocabulary.control, *vocabulary.end, *markers})
    texts = {token: vocabulary.tokens[token].decode(errors="replace") for token in special}
    ends = [token for token in vocabulary.end if token not in markers]
    size = max(len(vocabulary.tokens), 256 + len(special))  # room for each byte
    described = {"size": size, "special": texts, "ends": ends}
    said = _ask({"vocabulary": json.dumps(described), "lark": lark})["error"]
    if said:
        error = explain_failure(said, NOT_VALID)
        raise TrialError(error.message, where="/grammar", hint=error.hint)


def read_gbnf(grammar: str) -> str:
    """Converts a grammar of llama.cpp (GBNF) to llguidance's Lark dialect."""
    # In another process, since the time grows with the square of the number of rules.
    converted = _ask({"gbnf": grammar})
    if "error" in converted:
        message = f"the GBNF grammar is not valid: {converted['error']}"
        raise TrialError(message, where="/grammar", hint="Correct it")
    return converted["lark"]


def _ask(question: dict[str, Any]) -> dict[str, Any]:
    try:
        return _PROCESSES.ask_even_here(question, SECONDS)
    except ProcessLimitError as e:
        raise TrialError(f"the grammar takes {e}", where="/grammar", hint=_HINT) from e
