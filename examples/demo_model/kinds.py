"""Kinds of values: the schema of a parameter, values for it, and how a request says them."""

import string
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from examples.demo_model import catalogue, objects, strings
from examples.demo_model.words import Words

NUMBER_WORDS = "zero one two three four five six seven eight nine ten eleven twelve".split()
Said = tuple[Any, str]  # a value, and the words of the request for it


@dataclass(frozen=True)
class Kind:
    """What a parameter takes.

    Attributes:
        schema: its JSON schema.
        draw: a value and how it is said.
    """

    schema: dict[str, Any]
    draw: Callable[[Words], Said]


def make_kind(spec: str, words: Words) -> Kind:
    """The kind that `spec` names (see parameters.txt); details of the schema are drawn.

    Raises:
        ValueError: there is no such kind.
    """
    name, _, rest = spec.partition(" ")
    match name:
        case "int":
            return _integers(rest, words)
        case "decimal":
            return _decimals(rest, words)
        case "enum":
            return _options(rest, words)
        case "choice":
            return _choices(words)
        case "bool":
            return Kind({"type": "boolean"}, lambda words: _flag(words))
        case "list":
            return _lists(rest, words)
        case "id" | "port" | "number" | "year":
            return _identifiers(name, words)
    return _named(name, words)


def _named(name: str, words: Words) -> Kind:
    if name in NUMBERS:
        return Kind({"type": NUMBERS[name][0]}, NUMBERS[name][1])
    if name in objects.OBJECTS:
        schema, draw = objects.OBJECTS[name]
        return Kind(schema, draw)
    if name not in catalogue.STRINGS:
        raise ValueError(f"there is no kind {name!r}")
    schema: dict[str, Any] = {"type": "string"}
    if words.random.random() < 0.08:
        schema |= words.random.choice(catalogue.LIMITS.get(name, catalogue.ANY_LIMITS))
    draw, longest = catalogue.STRINGS[name], schema.get("maxLength", 1_000)

    def draw_fitting(words: Words) -> Said:
        while len(text := draw(words)) > longest:
            pass
        return text, text

    return Kind(schema, draw_fitting)


def _flag(words: Words) -> Said:
    value = words.random.random() < 0.6
    return value, ""


def _integers(rest: str, words: Words) -> Kind:
    low, high = (int(bound) for bound in rest.split(".."))
    schema: dict[str, Any] = {"type": "integer"}
    if words.random.random() < 0.15:
        schema |= words.random.choice(({"minimum": low}, {"minimum": low, "maximum": high}))

    def draw(words: Words) -> Said:
        value = words.random.randint(low, high)
        if value in range(1, len(NUMBER_WORDS)) and words.random.random() < 0.3:
            return value, NUMBER_WORDS[value]
        return value, "a dozen" if value == 12 and words.random.random() < 0.2 else str(value)

    return Kind(schema, draw)


def _decimals(rest: str, words: Words) -> Kind:
    low, high = (float(bound) for bound in rest.split(".."))

    def draw(words: Words) -> Said:
        value = round(words.random.uniform(low, high), words.random.choice((0, 1, 1, 1, 2)))
        return (int(value) if value == int(value) else value), f"{value:g}"

    return Kind({"type": "number"}, draw)


def _options(rest: str, words: Words) -> Kind:
    options = [option.split("=") for option in rest.split(";")]
    if words.random.random() < 0.25:
        words.random.shuffle(options)
    spell = words.random.choice((str, str, str, str, str, str.upper, str.capitalize))
    values = {spell(value): said.split(",") for value, said in options}

    def draw(words: Words) -> Said:
        value = words.random.choice(list(values))
        said = value if words.random.random() < 0.25 else words.random.choice(values[value])
        return value, said.replace("_", " ")

    return Kind(_enum(list(values), words), draw)


def _enum(values: list[str], words: Words) -> dict[str, Any]:
    bare = words.random.random() < 0.06
    return {"enum": values} if bare else {"type": "string", "enum": values}


def _choices(words: Words) -> Kind:
    """Two to six words of any sort; the request says one."""
    sort = words.random.choice(("noun", "noun", "adjective", "verb", "two"))
    draw_word = strings.two_words if sort == "two" else (lambda words: words.pick(sort))
    values = list(dict.fromkeys(draw_word(words) for _ in range(words.random.randint(2, 6))))
    spell = words.random.choice((str, str, str, str.upper))

    def draw(words: Words) -> Said:
        value = words.random.choice(values)
        return spell(value), value.replace("_", " ")

    return Kind(_enum([spell(value) for value in values], words), draw)


def _lists(rest: str, words: Words) -> Kind:
    item = make_kind(rest, words)

    def draw(words: Words) -> Said:
        drawn = [item.draw(words) for _ in range(words.random.choice((1, 2, 2, 2, 3, 3, 4)))]
        kept = list({str(value): (value, said) for value, said in drawn}.values())
        return [value for value, _ in kept], join([said for _, said in kept], words)

    return Kind({"type": "array", "items": item.schema}, draw)


def join(parts: list[str], words: Words) -> str:
    """Several things, as one says them: "a, b and c"."""
    if len(parts) == 1:
        return parts[0]
    last = words.random.choice((" and ", " and ", " and ", ", and ", ", "))
    return ", ".join(parts[:-1]) + last + parts[-1]


RANGES = {"id": (10, 99999), "port": (20, 9999), "number": (1, 400), "year": (1950, 2030)}


def _identifiers(name: str, words: Words) -> Kind:
    """Numbers that some tools take as text."""
    as_text = name == "id" and words.random.random() < 0.4
    letters = as_text and words.random.random() < 0.5

    def draw(words: Words) -> Said:
        number = words.random.randint(*RANGES[name])
        if not as_text:
            return number, str(number)
        text = words.random.choice(string.ascii_lowercase) + str(number) if letters else str(number)
        return text, text

    return Kind({"type": "string" if as_text else "integer"}, draw)


def _minutes(words: Words) -> Said:
    value = words.random.choice((1, 2, 3, 5, 8, 10, 12, 15, 20, 25, 30, 40, 45, 60, 75, 90, 120))
    value = words.random.randint(1, 180) if words.random.random() < 0.3 else value
    word = value < len(NUMBER_WORDS) and words.random.random() < 0.25
    return value, NUMBER_WORDS[value] if word else str(value)


def _money(words: Words) -> Said:
    whole = words.random.choice((words.random.randint(1, 100), words.random.randint(100, 3000)))
    if words.random.random() < 0.75:
        return whole, str(whole)
    cents = words.random.randint(1, 99)
    return float(f"{whole}.{cents:02}"), f"{whole}.{cents:02}"


def _hour(words: Words) -> Said:
    value = words.random.randint(0, 23)
    return value, f"{value:02}" if words.random.random() < 0.2 else str(value)


def _minute(words: Words) -> Said:
    value = words.random.choice((0, 5, 10, 15, 20, 30, 30, 40, 45, 50, words.random.randint(0, 59)))
    return value, f"{value:02}"


NUMBERS: dict[str, tuple[str, Callable[[Words], Said]]] = {
    "minutes": ("integer", _minutes),
    "money": ("number", _money),
    "hour": ("integer", _hour),
    "minute": ("integer", _minute),
}
