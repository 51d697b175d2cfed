"""Complete deterministic automata, for those that need every state."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from grammars.limits.steps import spend
from grammars.regex.characters import Characters, partition
from grammars.regex.expressions import (
    EMPTY_SET,
    EMPTY_STRING,
    CharacterClass,
    Expression,
    alternate,
    concatenate,
    derive,
    find_firsts,
    is_nullable,
    repeat,
)

V = TypeVar("V")

_COUNTED = 8  # paths that are counted in a step


class TooManyStatesError(ValueError):
    """The automaton would have more states than allowed."""


@dataclass(frozen=True)
class Edge:
    """A transition with one of these characters to the state of this number."""

    characters: Characters
    target: int


@dataclass(frozen=True)
class DeterministicState:
    """A state; the edges have disjoint character sets."""

    accepts: bool
    edges: tuple[Edge, ...]


def explore(
    start: V,
    list_edges: Callable[[V], Iterable[tuple[Characters, V]]],
    accepts: Callable[[V], bool],
    max_states: int,
) -> tuple[list[DeterministicState], list[V]]:
    """Builds an automaton whose states stand for values; returns the states, and their values. The
    transitions of a value have disjoint characters. Raises TooManyStatesError."""
    numbers = {start: 0}
    values = [start]
    states: list[DeterministicState] = []
    for value in values:  # the loop appends to it
        edges: list[Edge] = []
        for characters, after in list_edges(value):
            if after not in numbers:
                numbers[after] = len(values)
                values.append(after)
                if len(values) > max_states:
                    raise TooManyStatesError(f"more than {max_states:,} states")
            edges.append(Edge(characters, numbers[after]))
        states.append(_make_state(accepts(value), edges))
    return states, values


def _make_state(accepts: bool, edges: Iterable[Edge]) -> DeterministicState:
    """Returns a state; edges with the same target become one."""
    ranges: dict[int, list[tuple[int, int]]] = {}
    for edge in edges:
        ranges.setdefault(edge.target, []).extend(edge.characters.ranges)
    joined = [Edge(Characters.collect(found), target) for target, found in ranges.items()]
    return DeterministicState(accepts, tuple(joined))


def determinize(expression: Expression, max_states: int) -> list[DeterministicState]:
    """Builds the automaton of an expression. The first state is the start; each state can reach an
    accepting one. The result is empty if the expression matches nothing. Raises
    TooManyStatesError."""

    def list_edges(state: Expression) -> Iterator[tuple[Characters, Expression]]:
        for cell in partition(find_firsts(state)):
            spend()
            after = derive(state, chr(cell.ranges[0][0]))
            if after != EMPTY_SET:
                yield cell, after

    return minimize(explore(expression, list_edges, is_nullable, max_states)[0])


@dataclass(frozen=True)
class _StatePath:
    """The texts from one state to another, and how many character sets are written for them."""

    texts: Expression
    size: int


_NO_PATH = _StatePath(EMPTY_SET, 0)
_NO_STEP = _StatePath(EMPTY_STRING, 0)


def write_back(states: Sequence[DeterministicState], max_size: int) -> Expression:
    """Returns an expression for the texts of an automaton, without intersections and complements.
    State after state is removed, and the paths through it are added to those around it. Raises
    TooManyStatesError if the expression would have more than `max_size` sets, as written."""
    if not states:
        return EMPTY_SET
    start, end = -1, len(states)
    paths: dict[tuple[int, int], _StatePath] = {(start, 0): _NO_STEP}
    for number, state in enumerate(states):
        if state.accepts:
            paths[number, end] = _NO_STEP
        for edge in state.edges:
            paths[number, edge.target] = _StatePath(CharacterClass(edge.characters), 1)
    left = set(range(len(states)))
    while left:
        through = _count_paths(paths)
        number = min(left, key=lambda state: (through[state], state))
        left.remove(number)
        _remove_state(paths, number, max_size)
    return paths.get((start, end), _NO_PATH).texts


def _count_paths(paths: Mapping[tuple[int, int], _StatePath]) -> Counter[int]:
    """Returns how many paths there would be through each state."""
    spend(1 + len(paths) // _COUNTED)
    incoming, outgoing = Counter[int](), Counter[int]()
    for source, target in paths:
        if source != target:
            outgoing[source] += 1
            incoming[target] += 1
    through = Counter[int]()
    for state in incoming:
        through[state] = incoming[state] * outgoing[state]
    return through


def _remove_state(paths: dict[tuple[int, int], _StatePath], state: int, max_size: int) -> None:
    loop = paths.pop((state, state), _NO_PATH)
    incoming = {source: paths.pop((source, state)) for source, to in [*paths] if to == state}
    outgoing = {target: paths.pop((state, target)) for of, target in [*paths] if of == state}
    for source, before in incoming.items():
        for target, after in outgoing.items():
            spend()
            other = paths.get((source, target), _NO_PATH)
            size = before.size + loop.size + after.size + other.size
            if size > max_size:
                raise TooManyStatesError(f"more than {max_size:,} sets of characters")
            through = concatenate(before.texts, repeat(loop.texts, 0, None), after.texts)
            paths[source, target] = _StatePath(alternate([other.texts, through]), size)


def minimize(states: Sequence[DeterministicState]) -> list[DeterministicState]:
    """Returns the minimal automaton of states that the first one reaches; empty: no text."""
    living = _drop_dead(states)
    classes = _find_classes(living)
    merged: dict[int, DeterministicState] = {}
    for number, state in enumerate(living):
        if classes[number] not in merged:
            edges = [Edge(edge.characters, classes[edge.target]) for edge in state.edges]
            merged[classes[number]] = _make_state(state.accepts, edges)
    return list(merged.values())


def _drop_dead(states: Sequence[DeterministicState]) -> list[DeterministicState]:
    """Keeps only the states that reach an accepting one."""
    sources: dict[int, list[int]] = {}
    for number, state in enumerate(states):
        for edge in state.edges:
            sources.setdefault(edge.target, []).append(number)
    alive = {number for number, state in enumerate(states) if state.accepts}
    queue = list(alive)
    while queue:
        for source in sources.get(queue.pop(), ()):
            if source not in alive:
                alive.add(source)
                queue.append(source)
    if 0 not in alive:
        return []
    kept = sorted(alive)
    renamed = {number: at for at, number in enumerate(kept)}
    living: list[DeterministicState] = []
    for number in kept:
        state = states[number]
        edges = [e for e in state.edges if e.target in alive]
        renumbered = [Edge(edge.characters, renamed[edge.target]) for edge in edges]
        living.append(DeterministicState(state.accepts, tuple(renumbered)))
    return living


def _find_classes(states: Sequence[DeterministicState]) -> list[int]:
    """Returns the class of each state, numbered in order of first occurrence: states of one class
    accept the same remaining texts (Hopcroft 1971)."""
    sources = _list_sources(states)
    accepting = {number for number, state in enumerate(states) if state.accepts}
    blocks = [accepting, set(range(len(states))) - accepting]
    block_of = [int(not state.accepts) for state in states]
    waiting = {0, 1}
    while waiting:
        splitter = list(blocks[waiting.pop()])
        for sources_of in sources:
            touched: dict[int, set[int]] = {}
            for target in splitter:
                for source in sources_of.get(target, ()):
                    spend()
                    touched.setdefault(block_of[source], set()).add(source)
            for block, inside in touched.items():
                outside = blocks[block] - inside
                if not outside:
                    continue
                blocks[block], smaller = sorted((inside, outside), key=len, reverse=True)
                for number in smaller:
                    block_of[number] = len(blocks)
                waiting.add(len(blocks))
                blocks.append(smaller)
    numbers: dict[int, int] = {}
    return [numbers.setdefault(block, len(numbers)) for block in block_of]


def _list_sources(states: Sequence[DeterministicState]) -> list[dict[int, list[int]]]:
    """Returns, for each class of characters and each target state, the states that lead to it."""
    edges = [(number, edge) for number, state in enumerate(states) for edge in state.edges]
    kinds = partition({edge.characters for _, edge in edges})
    numbers: dict[Characters, list[int]] = {}
    sources: list[dict[int, list[int]]] = [{} for _ in kinds]
    for number, edge in edges:
        if edge.characters not in numbers:
            has_kind = [chr(kind.ranges[0][0]) in edge.characters for kind in kinds]
            numbers[edge.characters] = [i for i, has in enumerate(has_kind) if has]
        for kind in numbers[edge.characters]:
            sources[kind].setdefault(edge.target, []).append(number)
    return sources
