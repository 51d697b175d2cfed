"""An automaton for decimals that are multiples of a number; its states are the remainders."""

from grammars.regex.characters import Characters
from grammars.regex.deterministic import (
    DeterministicState,
    Edge,
    TooManyStatesError,
    minimize,
)


def divide(divisor: int, places: int, max_states: int) -> list[DeterministicState]:
    """Builds an automaton for the multiples of `divisor / 10**places`: integers, and decimals with
    exactly that many places. Any sign; no superfluous leading zero.

    Raises:
        TooManyStatesError: it would have more than `max_states` states.
    """
    rows = places + 1  # of remainders: before the point, and after it one for each number of digits
    if divisor * rows > max_states:
        raise TooManyStatesError(f"more than {max_states:,} states")
    sign, zero, first = 1, 2, 3  # the states after the start; those of the digits come last

    def number_of(row: int, remainder: int) -> int:
        return first + row * divisor + remainder

    def write_digits(row: int, remainder: int, least: int = 0) -> list[Edge]:
        edges: list[Edge] = []
        for digit in range(least, 10):
            after = (remainder * 10 + digit) % divisor
            edges.append(Edge(Characters.of(str(digit)), number_of(row, after)))
        return edges

    def write_point(remainder: int) -> list[Edge]:
        return [Edge(Characters.of("."), point + remainder)] if places else []

    # The states after the point, before its first digit: one more row.
    point = number_of(rows, 0)
    begin = [Edge(Characters.of("0"), zero), *write_digits(0, 0, least=1)]
    states = [
        DeterministicState(False, (Edge(Characters.of("-"), sign), *begin)),
        DeterministicState(False, tuple(begin)),
        DeterministicState(True, tuple(write_point(0))),
    ]
    for row in range(rows):
        for remainder in range(divisor):
            if row == 0:
                is_multiple = remainder * 10**places % divisor == 0
                edges = write_digits(0, remainder) + write_point(remainder)
            else:
                is_multiple = row == places and remainder == 0
                edges = write_digits(row + 1, remainder) if row < places else []
            states.append(DeterministicState(is_multiple, tuple(edges)))
    for remainder in range(divisor if places else 0):
        states.append(DeterministicState(False, tuple(write_digits(1, remainder))))
    return minimize(states)
