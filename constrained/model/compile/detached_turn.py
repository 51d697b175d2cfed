"""A compiled turn in a form that can be sent to another process with the same model, without the
text of its prompt. Tools and grammar, the same for all turns of a conversation, are a named piece,
which is read once."""

import hashlib
import pickle
from dataclasses import dataclass, replace
from typing import TypeAlias

from constrained.model.compile.compiled_turn import CompiledTurn, TurnPlan
from constrained.prompt.prompt_reuse import Reuse
from constrained.prompt.template.special_tokens import Prompt
from grammars.limits.byte_cache import MIB, ByteCache
from grammars.turn import Tool
from grammars.turn_grammar.ir.completion import Completer
from grammars.turn_grammar.ir.grammar import Grammar

ROOM = 64 * MIB
"""For packed constraints, and for unpacked ones."""
UNPACKED = 8
"""Unpacked constraints take about this many times the bytes of packed ones."""


Constraints: TypeAlias = tuple[tuple[Tool, ...], Grammar | None]
"""The tools and the grammar of a turn: they are large, and the same for many turns."""


@dataclass(frozen=True)
class PackedConstraints:
    name: bytes
    data: bytes


@dataclass(frozen=True)
class DetachedTurn:
    """A turn without the text of its prompt; its tools and grammar are not in `plan`."""

    plan: TurnPlan
    constraints: PackedConstraints


class TurnPacker:
    def __init__(self) -> None:
        # The key is the `id` of the completer. It is kept alive, so that no other one gets this id.
        self._packed: ByteCache[tuple[Completer, PackedConstraints]] = ByteCache(
            ROOM, lambda kept: len(kept[1].data)
        )

    def detach(self, turn: CompiledTurn) -> DetachedTurn:
        prompt = replace(turn.prompt, rendered=Prompt(()), reuse=Reuse())
        source = replace(turn.plan.source, tools=())
        return DetachedTurn(replace(turn.plan, prompt=prompt, source=source), self._pack(turn))

    def _pack(self, turn: CompiledTurn) -> PackedConstraints:
        completer = turn.completer
        if completer is None:
            return pack_constraints((turn.tools, None))
        kept = self._packed.find(id(completer), None)
        if kept is None:
            packed = pack_constraints((turn.tools, completer.grammar))
            kept = completer, packed
            self._packed.keep(id(completer), kept)
        return kept[1]


def pack_constraints(constraints: Constraints) -> PackedConstraints:
    data = pickle.dumps(constraints, pickle.HIGHEST_PROTOCOL)
    return PackedConstraints(hashlib.blake2b(data, digest_size=16).digest(), data)


class ConstraintReader:
    """Reads packed constraints; caches the last ones. They must come from a trusted process: pickle
    can execute any code."""

    def __init__(self) -> None:
        self._read: ByteCache[tuple[Constraints, int]] = ByteCache(ROOM, lambda kept: kept[1])

    def read(self, turn: DetachedTurn) -> tuple[TurnPlan, Grammar | None]:
        """Returns the turn with its tools, and its grammar; None: it is free text."""
        packed = turn.constraints
        kept = self._read.find(packed.name, None)
        if kept is None:
            constraints: Constraints = pickle.loads(packed.data)
            kept = constraints, UNPACKED * len(packed.data)
            self._read.keep(packed.name, kept)
        tools, grammar = kept[0]
        return replace(turn.plan, source=replace(turn.plan.source, tools=tools)), grammar
