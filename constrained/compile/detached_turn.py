"""A compiled turn on its way to another process, which has the same model and decodes it.

What the prompt says as text stays here: the other one needs its tokens. Tools and grammar, which
are the same for all turns of a conversation, travel as one piece with a name, so that the other one
need not read it again.
"""

import hashlib
import pickle
from dataclasses import dataclass, replace

from constrained.cache_scope import CacheScope
from constrained.compile.compiled_turn import CompiledTurn
from constrained.decode.assistant_prefix import AssistantPrefix
from constrained.decode.reasoning_budget import ReasoningBudget
from constrained.job import CallLimits
from constrained.prompt.prompts import ComposedPrompt, Reuse
from constrained.template.special_tokens import Prompt
from grammars.byte_cache import MIB, ByteCache
from grammars.ir.completion import Completer
from grammars.ir.grammar import Grammar
from grammars.turn import Policy, State, Tool
from grammars.wire.format import Format

ROOM = 64 * MIB
"""For constraints that were packed, or unpacked, before."""
UNPACKED = 8
"""Times the bytes of packed constraints that unpacked ones take, about."""


@dataclass(frozen=True)
class TurnConstraints:
    """What a turn may be, beside its format: much text, and little that changes."""

    tools: tuple[Tool, ...]
    grammar: Grammar | None


@dataclass(frozen=True)
class PackedConstraints:
    """Constraints as bytes, and a name for them."""

    name: bytes
    data: bytes


@dataclass(frozen=True, kw_only=True)
class DetachedTurn:
    """A `CompiledTurn` without what only its own process has; the fields are those of that."""

    prompt: ComposedPrompt
    format: Format
    policy: Policy
    state: State
    budget: ReasoningBudget | None
    scope: CacheScope
    thinking_tags: bool
    call_limits: CallLimits
    max_repetition: int | None
    call_ids: frozenset[str]
    text_ends: tuple[str, ...]
    prefix: AssistantPrefix
    constraints: PackedConstraints


class TurnPacker:
    """Detaches turns; keeps the constraints that it has packed last."""

    def __init__(self) -> None:
        # With the completer, by whose `id` they are known: no other one may get it.
        self._packed: ByteCache[tuple[Completer, PackedConstraints]] = ByteCache(
            ROOM, lambda kept: len(kept[1].data)
        )

    def detach(self, turn: CompiledTurn) -> DetachedTurn:
        """The turn as another process can take it."""
        return DetachedTurn(
            prompt=replace(turn.prompt, rendered=Prompt(()), reuse=Reuse(), closed=None),
            format=turn.format,
            policy=turn.policy,
            state=turn.state,
            budget=turn.budget,
            scope=turn.scope,
            thinking_tags=turn.thinking_tags,
            call_limits=turn.call_limits,
            max_repetition=turn.max_repetition,
            call_ids=turn.call_ids,
            text_ends=turn.text_ends,
            prefix=turn.prefix,
            constraints=self._pack(turn),
        )

    def _pack(self, turn: CompiledTurn) -> PackedConstraints:
        completer = turn.completer
        if completer is None:
            return pack_constraints(TurnConstraints(turn.tools, None))
        kept = self._packed.find(id(completer), None)
        if kept is None:
            packed = pack_constraints(TurnConstraints(turn.tools, completer.grammar))
            kept = completer, packed
            self._packed.keep(id(completer), kept)
        return kept[1]


def pack_constraints(constraints: TurnConstraints) -> PackedConstraints:
    """Constraints as bytes."""
    data = pickle.dumps(constraints, pickle.HIGHEST_PROTOCOL)
    return PackedConstraints(hashlib.blake2b(data, digest_size=16).digest(), data)


class ConstraintReader:
    """Reads packed constraints; keeps those that it has read last. They have to be from a process
    that is trusted: pickle runs what it is told to."""

    def __init__(self) -> None:
        self._read: ByteCache[tuple[TurnConstraints, int]] = ByteCache(ROOM, lambda kept: kept[1])

    def read(self, packed: PackedConstraints) -> TurnConstraints:
        """The constraints."""
        kept = self._read.find(packed.name, None)
        if kept is None:
            constraints: TurnConstraints = pickle.loads(packed.data)
            kept = constraints, UNPACKED * len(packed.data)
            self._read.keep(packed.name, kept)
        return kept[0]
