"""Instances with one change each, as models get values wrong: a member too few or too many, another
type, a character more or less, a number next to it."""

import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from grammars.schema.json_values import Json
from grammars.schema.subschemas import is_list, is_object

_TEXTS = ("", "x", " ", "\n", "é", "0", '"', "null")
_OTHERS: tuple[Json, ...] = (None, True, 0, "x", [], {})
_STEPS = (1, -1, 0.5, 1e-9)


def change_instances(instance: Json, count: int, seed: int) -> Iterator[Json]:
    """So many changed copies of an instance; the same for the same seed."""
    rng = random.Random(seed)
    for _ in range(count):
        yield _change(instance, rng)


def _change(instance: Json, rng: random.Random) -> Json:
    places = list(_list_places(instance))
    *way, last = rng.choice(places)
    holder: Any = deepcopy([instance])
    inner = holder
    for step in way:
        inner = inner[step]
    inner[last] = _change_part(inner[last], rng)
    return holder[0]


def _list_places(instance: Json) -> Iterator[list[str | int]]:
    """Yields the steps to each value in a list with the instance."""
    queue: list[tuple[list[str | int], Json]] = [([0], instance)]
    while queue:
        place, value = queue.pop()
        yield place
        if is_object(value):
            queue += [([*place, key], member) for key, member in value.items()]
        elif is_list(value):
            queue += [([*place, index], item) for index, item in enumerate(value)]


def _change_part(value: Json, rng: random.Random) -> Json:
    if rng.random() < 0.3:
        return rng.choice(_OTHERS)
    if is_object(value):
        return _change_object(value, rng)
    if is_list(value):
        return _change_list(value, rng)
    if isinstance(value, str):
        return _change_text(value, rng)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return rng.choice([value + rng.choice(_STEPS), -value, value * 10, str(value)])
    return rng.choice(_OTHERS)


def _change_object(members: dict[str, Json], rng: random.Random) -> Json:
    changed = dict(members)
    key = rng.choice([*members, "undeclared"])
    if key in changed and rng.random() < 0.5:
        del changed[key]
    else:
        changed[key + rng.choice(_TEXTS)] = changed.pop(key, rng.choice(_OTHERS))
    return changed


def _change_list(items: list[Json], rng: random.Random) -> Json:
    match rng.randrange(3):
        case 0:
            return items[:-1]
        case 1:
            return [*items, rng.choice([*items, *_OTHERS])]
        case _:
            return items[::-1]


def _change_text(text: str, rng: random.Random) -> Json:
    at = rng.randint(0, len(text))
    match rng.randrange(3):
        case 0:
            return text[:at] + rng.choice(_TEXTS) + text[at:]
        case 1:
            return text[:at] + text[at + 1 :]
        case _:
            return text.swapcase()
