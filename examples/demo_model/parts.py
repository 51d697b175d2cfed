"""Parameters of synthetic families, named by any word."""

from dataclasses import replace

from examples.demo_model.families import Parameter, read_parameters
from examples.demo_model.words import Words

COUNTS = (0, 1, 1, 2, 2, 2, 3, 3, 4, 5)
WITH_VALUE = (
    "with a {name} of {x}", "with {name} {x}", ", {name} {x}", ", {name}: {x}",
    "using {x} as {name}", "and set {name} to {x}", ", the {name} is {x}",
)  # fmt: skip
COUNTED = ("with {x} {name}", "for {x} {name}", ", {x} {name}", "and {x} {name}", "of {x} {name}")


def draw_parts(words: Words) -> tuple[Parameter, ...]:
    """Up to five parameters: of those that any tool may have, or with names of their own."""
    drawn = [
        _draw_own(words) if words.random.random() < 0.4 else words.random.choice(read_parameters())
        for _ in range(words.random.choice(COUNTS))
    ]
    required = words.random.choice((0.0, 0.5, 0.5, 1.0))
    return tuple(
        replace(p, key=f"part{number}", required=words.random.random() < required)
        for number, p in enumerate(drawn)
    )


def _draw_own(words: Words) -> Parameter:
    noun = words.pick("noun")
    name = words.random.choice((noun, noun, words.invent(), f"{words.pick('adjective')}_{noun}"))
    described = (f"The {noun}", noun.capitalize())
    match words.random.randrange(7):
        case 0 | 1:
            return _draw_flag(words)
        case 2:
            return Parameter("", "choice", (name,), False, (), (*WITH_VALUE, "as {x}", ", {x}"))
        case 3:
            spec = words.random.choice(("int 0..100", "decimal 0..50", "int 100..9999"))
            return Parameter("", spec, (name,), False, described, WITH_VALUE)
        case 4:
            plural = noun if noun.endswith("s") else f"{noun}s"
            says = tuple(pattern.replace("{name}", plural) for pattern in COUNTED)
            names = (plural, plural, f"number_of_{plural}", noun)
            return Parameter("", "int 2..40", names, False, (f"How many {plural}",), says)
    spec = words.random.choice(("word", "title", "topic", "person", "random", "list word", "code"))
    return Parameter("", spec, (name,), False, described, WITH_VALUE)


def _draw_flag(words: Words) -> Parameter:
    """Yes or no, named by what it is like, or by what comes with it."""
    noun, adjective = words.pick("noun"), words.pick("adjective")
    if words.random.random() < 0.6:
        says = (
            f", {adjective}//, not {adjective}",
            f"and make it {adjective}//but not {adjective}",
            f", {adjective} please//, nothing {adjective}",
        )
        names = (adjective, adjective, f"is_{adjective}", f"make_{adjective}")
        return Parameter("", "bool", names, False, (f"Whether it is {adjective}",), says)
    says = (
        f"with {noun}//without {noun}",
        f", {noun} included//, no {noun}",
        f"including {noun}//except {noun}",
    )
    return Parameter("", "bool", (noun, f"with_{noun}", f"include_{noun}"), False, (), says)
