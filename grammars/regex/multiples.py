"""An automaton for the multiples of a number; its states are the remainders."""

from grammars.regex.characters import Characters
from grammars.regex.deterministic import (
    DeterministicState,
    Edge,
    TooManyStatesError,
    minimize,
)

_SIGN, _ZERO, _FIRST = 1, 2, 3
"""The states after the start; those of the remainders come last."""


def divide(divisor: int, max_states: int) -> list[DeterministicState]:
    """Builds an automaton for the multiples of an integer: any sign, no superfluous leading zero.

    Raises:
        TooManyStatesError: it would have more than `max_states` states.
    """
    if divisor > max_states:
        raise TooManyStatesError(f"more than {max_states:,} states")

    def write_digits(remainder: int, least: int = 0) -> list[Edge]:
        edges: list[Edge] = []
        for digit in range(least, 10):
            after = (remainder * 10 + digit) % divisor
            edges.append(Edge(Characters.of(str(digit)), _FIRST + after))
        return edges

    begin = [Edge(Characters.of("0"), _ZERO), *write_digits(0, least=1)]
    states = [
        DeterministicState(False, (Edge(Characters.of("-"), _SIGN), *begin)),
        DeterministicState(False, tuple(begin)),
        DeterministicState(True, ()),
    ]
    for remainder in range(divisor):
        states.append(DeterministicState(remainder == 0, tuple(write_digits(remainder))))
    return minimize(states)
