"""A deterministic automaton that is built lazily, and its shortest texts."""

from collections.abc import Iterable
from heapq import heappop, heappush

from grammars.limits.byte_cache import MIB, keep_results
from grammars.regex.characters import pick_representatives
from grammars.regex.expressions import (
    EMPTY_SET,
    ENDLESS,
    Alternation,
    CharacterClass,
    Concatenation,
    Expression,
    Repeat,
    complement,
    derive,
    find_firsts,
    intersect,
    is_nullable,
    measure,
)
from grammars.regex.reader import UnreadableError, read

MAX_STATES = 20_000
"""With more states, the automaton starts over: this bounds memory and changes no result."""
STATE_BYTES = 2_500
"""The estimated size of a state with its expression: 600 if it counts, 2,800 if it has options."""
_MAX_STEPS = 4_000
"""The search for a text gives up when it has seen this many more states than the text has
characters."""

_MAX_EXPLORED = 200


class AutomatonState:
    """A state of an automaton; its expression matches the texts that may follow."""

    __slots__ = ("accepts", "ending", "expression", "is_dead", "next")

    def __init__(self, expression: Expression):
        self.expression = expression
        self.next: dict[str, AutomatonState] = {}
        self.accepts = is_nullable(expression)
        self.is_dead = expression == EMPTY_SET
        self.ending: str | bool | None = False  # the shortest one; False: not looked for yet

    @property
    def least(self) -> int:
        """The minimum length of the texts that may follow."""
        return measure(self.expression)


class Automaton:
    """An automaton for an expression; its states are the derivatives of the expression. Threads may
    share one: at worst, two of them build the same state twice."""

    def __init__(self, expression: Expression):
        self._expression = expression
        self._reset()

    def _reset(self) -> None:
        self._states: dict[Expression, AutomatonState] = {}
        self._start = self._find(self._expression)

    def _find(self, expression: Expression) -> AutomatonState:
        state = self._states.get(expression)
        if state is None:
            state = self._states[expression] = AutomatonState(expression)
        return state

    @property
    def start(self) -> AutomatonState:
        if len(self._states) > MAX_STATES:
            self._reset()
        return self._start

    def measure(self) -> int:
        """Returns the estimated size of its states in bytes."""
        return STATE_BYTES * len(self._states)

    def step(self, state: AutomatonState, character: str) -> AutomatonState:
        following = state.next.get(character)
        if following is None:
            following = self._find(derive(state.expression, character))
            state.next[character] = following
        return following

    def accepts(self, text: str) -> bool:
        return self._walk(text).accepts

    def extend(self, text: str, fewest: int = 0, most: int | None = None) -> str | None:
        """Finds the shortest text (`fewest` to `most` characters) that can follow `text`; None:
        there is none, or the search gave up."""
        if fewest == 0 and most is None:
            return self.end(self._walk(text))
        return self._search(self._walk(text), fewest, ENDLESS - 1 if most is None else most)

    def end(self, state: AutomatonState) -> str | None:
        """Returns the shortest text from this state to an accepting one; None: none was found."""
        if isinstance(state.ending, bool):
            state.ending = _spell_shortest(state.expression)
            if state.ending is None:
                state.ending = self._search(state, 0, ENDLESS - 1)
        return state.ending

    def is_empty(self, max_states: int = _MAX_EXPLORED) -> bool:
        """Returns whether it is known that no text matches, after a look at as many states."""
        self._reset()
        queue = [self._start]
        seen = {self._start}
        while queue and len(seen) <= max_states:
            state = queue.pop()
            if state.accepts:
                return False
            for character in pick_representatives(find_firsts(state.expression)):
                following = self.step(state, character)
                if following not in seen:
                    seen.add(following)
                    queue.append(following)
        return not queue

    def _walk(self, text: str) -> AutomatonState:
        state = self.start
        for character in text:
            state = state.next.get(character) or self.step(state, character)
        return state

    def _search(self, start: AutomatonState, fewest: int, most: int) -> str | None:
        """Searches by A* over the states; the least length of a state estimates the rest. Of
        several shortest texts, the result is the first in character order, whatever was searched
        before."""
        least = max(fewest, start.least)
        queue = [(least, 0, "", 0, start)]
        lengths = {(start, 0): 0}  # of the shortest way to a place
        pushed = 0
        for _ in range(_MAX_STEPS + 2 * min(least, _MAX_STEPS)):
            if not queue or queue[0][0] > most:
                return None
            _, _, text, _, state = heappop(queue)
            if len(text) >= fewest and state.accepts:
                return text
            for character in pick_representatives(find_firsts(state.expression)):
                following, length = self.step(state, character), len(text) + 1
                key = following, min(length, fewest)
                if following.least >= ENDLESS or length >= lengths.get(key, ENDLESS):
                    continue
                lengths[key] = length
                pushed += 1
                total = max(fewest, length + following.least)
                heappush(queue, (total, -length, text + character, pushed, following))
        return None


def _spell_shortest(expression: Expression) -> str | None:
    """Reads the shortest text off the expression; None: it needs a search. So long runs, such as
    `minLength: 10000`, need no search."""
    match expression:
        case CharacterClass(characters):
            return next(iter(pick_representatives(frozenset([characters]))), None)
        case Concatenation():
            return _spell_chain(expression)
        case Alternation(options):
            return _spell_option(options)
        case Repeat(body, fewest):
            if not fewest:
                return ""
            once = _spell_shortest(body)
            return None if once is None else once * fewest
        case _:
            return "" if is_nullable(expression) else None


def _spell_chain(expression: Expression) -> str | None:
    texts: list[str] = []
    while isinstance(expression, Concatenation):
        text = _spell_shortest(expression.first)
        if text is None:
            return None
        texts.append(text)
        expression = expression.rest
    last = _spell_shortest(expression)
    return None if last is None else "".join(texts) + last


def _spell_option(options: Iterable[Expression]) -> str | None:
    """Returns the shortest option; of several, the first in character order."""
    least = min(map(measure, options))
    texts: list[str] = []
    for option in options:
        if measure(option) == least:
            text = _spell_shortest(option)
            if text is None:
                return None
            texts.append(text)
    return min(texts)


@keep_results("automata", 32 * MIB, lambda found: found.measure() if found else 0)
def compile_regexes(regexes: tuple[str, ...], without: tuple[str, ...] = ()) -> Automaton | None:
    """Returns an automaton for texts that all `regexes` match and none of `without`, or None."""
    try:
        parts = [read(regex) for regex in regexes]
        parts += [complement(read(regex)) for regex in without]
        return Automaton(intersect(parts))
    except (UnreadableError, RecursionError):
        return None
