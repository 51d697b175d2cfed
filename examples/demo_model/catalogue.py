"""All kinds of text values, by name."""

from collections.abc import Callable

from examples.demo_model import codes, strings
from examples.demo_model.things import THINGS
from examples.demo_model.words import Words

ANY_LIMITS = ({"minLength": 1}, {"maxLength": 40}, {"minLength": 1, "maxLength": 80})
LIMITS = {"isodate": ({"format": "date"},), "email": ({"format": "email"},)}


def _thing(options: str) -> Callable[[Words], str]:
    """One of a list; now and then another word, so that no list is learned by heart."""
    chosen = options.split(",")
    return lambda words: (
        strings.word(words) if words.random.random() < 0.15 else words.random.choice(chosen)
    )


PROSE = "person email word product topic title sentence day isodate clock daytime company project"
PLACES = "address venue place road"
CODES = "slug path imagefile url hostname phone code plate formula sql ticker version"
STRINGS: dict[str, Callable[[Words], str]] = {
    **{name: _thing(options) for name, options in THINGS.items()},
    **{name: getattr(strings, name) for name in f"{PROSE} {PLACES}".split()},
    **{name: getattr(codes, name) for name in CODES.split()},
    "country": lambda words: words.pick("country"),
    "noun": lambda words: words.pick("noun"),
    "city": lambda words: words.pick("city"),
    "language": lambda words: words.pick("language"),
    "firstname": lambda words: words.pick("first"),
    "weekday": lambda words: words.random.choice(strings.DAYS[3:]),
    "month": lambda words: words.random.choice(strings.MONTHS.split()),
    "handle": lambda words: words.random.choice(("@", "")) + words.pick("first").lower(),
    "channel": lambda words: words.random.choice(("#", "")) + codes.slug(words),
    "tag": strings.word,
    "random": codes.token,
    "invented": lambda words: words.invent(),
}
