"""The loop: mask, sample, commit, forced tokens, decode; for a list of sequences at once."""

from collections.abc import Sequence

from constrained.engine.protocol import Engine
from constrained.errors import RequestError
from constrained.progression import Progression
from constrained.request import Generation, Request


def generate(engine: Engine, requests: Sequence[Request]) -> list[Generation]:
    """Generates all turns together, one sequence each.

    Raises:
        ContextError: a prompt leaves no room for an answer, or for the shortest turn.
        RequestError: more requests than the engine has sequences, a limit below 1, or one that
            the shortest turn does not fit into.
        GrammarError: a grammar or matcher failed; nothing is returned then.
    """
    if len(requests) > engine.max_sequences:
        hint = "Load the model with more sequences"
        raise RequestError(f"{len(requests)} turns, {engine.max_sequences} sequences", hint=hint)
    turns: list[Progression] = []
    try:
        turns += [Progression(engine, number, request) for number, request in enumerate(requests)]
        while active := [turn for turn in turns if turn.finish is None]:
            logits = engine.decode([turn.next_chunk() for turn in active])
            for slot, turn in enumerate(active):
                turn.advance(slot, logits[slot])
        return [turn.result() for turn in turns]
    finally:
        for turn in turns:
            turn.close()
