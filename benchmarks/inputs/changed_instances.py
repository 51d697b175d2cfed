"""Instances with one change each, as models get values wrong: a member too few or too many, another
type, a character more or less, a number next to it, or one that the schema names."""

import random
from collections.abc import Iterator, Sequence
from copy import deepcopy

from benchmarks.fuzzing.inputs import find_places
from grammars.schema.json_values import Json
from grammars.schema.subschemas import is_list, is_object

_TEXTS = ("", "x", " ", "\n", "é", "0", '"', "null")
_OTHERS: tuple[Json, ...] = (None, True, 0, "x", [], {})
_STEPS = (1, -1, 0.5, 1e-9)


def change_instances(
    instance: Json, count: int, rng: random.Random, constants: Sequence[Json] = ()
) -> Iterator[Json]:
    """So many changed copies of an instance, with constants of its schema among the changes."""
    others = (*_OTHERS, *constants)
    for _ in range(count):
        copy = deepcopy([instance])
        holder, key = rng.choice(find_places(copy))
        holder[key] = _change_part(holder[key], others, rng)
        yield copy[0]


def _change_part(value: Json, others: Sequence[Json], rng: random.Random) -> Json:
    if rng.random() < 0.3:
        return rng.choice(others)
    if is_object(value):
        return _change_object(value, rng)
    if is_list(value):
        return _change_list(value, rng)
    if isinstance(value, str):
        return _change_text(value, rng)
    if isinstance(value, int | float) and not isinstance(value, bool):
        near = rng.choice([value, *(n for n in others if type(n) in (int, float))])
        return rng.choice([near + rng.choice(_STEPS), -value, value * 10, str(value)])
    return rng.choice(others)


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
