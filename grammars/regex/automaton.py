"""A deterministic automaton that is made while it is used, and its shortest texts."""

from functools import lru_cache
from heapq import heappop, heappush
from threading import Lock

from grammars.regex.characters import pick_representatives
from grammars.regex.expressions import (
    ENDLESS,
    Expression,
    both,
    derive,
    find_firsts,
    is_nullable,
    measure,
    other,
)
from grammars.regex.reader import UnreadableError, read

MOST_STATES = 20_000
"""When there are more, the automaton begins anew: memory is bounded, and the results the same."""
_MOST_STEPS = 4_000
"""After so many more than the text has characters, the search for it gives up."""

_MOST_EXPLORED = 200


class Automaton:
    """What an expression matches; the states are the derivatives of the expression.

    Threads may share one.
    """

    def __init__(self, expression: Expression):
        self._expression = expression
        self._lock = Lock()
        self._reset()

    def _reset(self) -> None:
        self._numbers: dict[Expression, int] = {}
        self._states: list[Expression] = []
        self._next: list[dict[str, int]] = []
        self._least: list[int] = []
        self._number(self._expression)

    def _number(self, state: Expression) -> int:
        number = self._numbers.get(state)
        if number is None:
            number = self._numbers[state] = len(self._states)
            self._states.append(state)
            self._next.append({})
            self._least.append(measure(state))
        return number

    def accepts(self, text: str) -> bool:
        """Does the expression match all of the text?"""
        with self._lock:
            return is_nullable(self._states[self._walk(text)])

    def extend(self, text: str, fewest: int = 0, most: int | None = None) -> str | None:
        """The shortest text (`fewest` to `most` characters) that can follow; None if none does,
        or none was found."""
        most = ENDLESS - 1 if most is None else most
        with self._lock:
            return self._search(self._walk(text), fewest, most)

    def is_empty(self) -> bool:
        """Is it plain that no text matches?"""
        with self._lock:
            self._reset()
            queue = [0]
            seen = {0}
            while queue and len(seen) <= _MOST_EXPLORED:
                state = queue.pop()
                if is_nullable(self._states[state]):
                    return False
                for character in pick_representatives(find_firsts(self._states[state])):
                    following = self._step(state, character)
                    if following not in seen:
                        seen.add(following)
                        queue.append(following)
            return not queue

    def _walk(self, text: str) -> int:
        if len(self._states) > MOST_STATES:
            self._reset()
        state, steps = 0, self._next
        for character in text:
            following = steps[state].get(character)
            state = self._step(state, character) if following is None else following
        return state

    def _step(self, state: int, character: str) -> int:
        following = self._next[state].get(character)
        if following is None:
            following = self._number(derive(self._states[state], character))
            self._next[state][character] = following
        return following

    def _search(self, start: int, fewest: int, most: int) -> str | None:
        """A* over the states; what remains is estimated by the least length of the state.

        Of several texts the first in order of characters, whatever was searched before.
        """
        least = max(fewest, self._least[start])
        queue = [(least, 0, "", start)]
        lengths = {(start, 0): 0}  # of the shortest way to a place
        for _ in range(_MOST_STEPS + 2 * min(least, _MOST_STEPS)):
            if not queue or queue[0][0] > most:
                return None
            _, _, text, state = heappop(queue)
            if len(text) >= fewest and is_nullable(self._states[state]):
                return text
            for character in pick_representatives(find_firsts(self._states[state])):
                following, length = self._step(state, character), len(text) + 1
                key = following, min(length, fewest)
                least = self._least[following]
                if least >= ENDLESS or length >= lengths.get(key, ENDLESS):
                    continue
                lengths[key] = length
                total = max(fewest, length + least)
                heappush(queue, (total, -length, text + character, following))
        return None


@lru_cache(maxsize=512)
def compile_regexes(regexes: tuple[str, ...], without: tuple[str, ...] = ()) -> Automaton | None:
    """What all of `regexes` match and none of `without`; None if one of them cannot be read."""
    try:
        parts = [read(regex) for regex in regexes]
        parts += [other(read(regex)) for regex in without]
        return Automaton(both(parts))
    except (UnreadableError, RecursionError):
        return None
