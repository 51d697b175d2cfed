"""Values that are text, copied from the request as they are said."""

from examples.demo_model.things import CURRENCIES, LANGUAGE_CODES, THINGS
from examples.demo_model.words import Words

DAYS = "today tomorrow tonight Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December"


def _pick(options: str, words: Words) -> str:
    return words.random.choice(options.split(","))


def _pair(table: str, words: Words) -> tuple[str, str]:
    value, said = words.random.choice(table.split(";")).split("=")
    return value, value if words.random.random() < 0.3 else _pick(said, words)


def currency(words: Words) -> tuple[str, str]:
    """A currency by its code, said by code or name."""
    return _pair(CURRENCIES, words)


def language_code(words: Words) -> tuple[str, str]:
    """A language by its code, said by code or name."""
    return _pair(LANGUAGE_CODES, words)


def person(words: Words) -> str:
    """A first name, or a full one."""
    first = words.pick("first")
    return first if words.random.random() < 0.4 else f"{first} {words.pick('last')}"


def email(words: Words) -> str:
    """An address at a domain that nobody owns."""
    first, last = words.pick("first").lower(), words.pick("last").lower()
    user = words.random.choice((first, f"{first}.{last}", f"{first[0]}{last}", f"{first}_{last}"))
    host = words.random.choice(("example.com", "example.org", "mail.test", f"{word(words)}.test"))
    return f"{user}@{host}"


def word(words: Words) -> str:
    """Any word: mostly a real one."""
    roll = words.random.random()
    if roll < 0.2:
        return words.scramble()
    if roll < 0.27:
        return words.invent()
    return words.pick("noun" if roll < 0.7 else "adjective")


def two_words(words: Words) -> str:
    """Two words, as constants are spelled."""
    return f"{words.pick('adjective')}_{words.pick('noun')}"


def product(words: Words) -> str:
    """A thing one can buy, perhaps with an adjective."""
    roll = words.random.random()
    if roll < 0.25:
        return _pick(THINGS["food"], words)
    noun = word(words)
    return f"{words.pick('adjective')} {noun}" if roll < 0.6 else noun


def topic(words: Words) -> str:
    """What something is about: one to four words."""
    noun, other = word(words), words.pick("noun")
    forms = (noun, f"{noun} {other}", f"{words.pick('adjective')} {noun}", f"the {noun}")
    more = (f"{noun} and {other}", f"{noun} in {words.pick('city')}", person(words))
    return words.random.choice(forms + forms + more)


def title(words: Words) -> str:
    """The name of a work: capitalised."""
    noun, other = words.pick("noun").capitalize(), word(words).capitalize()
    adjective = words.pick("adjective").capitalize()
    forms = ("The {0}", "{2} {1}", "{1} of the {0}", "The {2} {0}", "{0} and {1}", "{1}", "My {0}")
    return words.random.choice(forms).format(noun, other, adjective)


def sentence(words: Words) -> str:
    """Something that one may write in a message."""
    noun, adjective, verb = word(words), words.pick("adjective"), words.pick("verb")
    forms = (
        f"the {noun} is {adjective}",
        f"I will {verb} the {noun} {day(words)}",
        f"we need more {noun}",
        f"we could {verb} it {day(words)}",
        f"{verb} the {adjective} {noun}",
        f"see you at {clock(words)}",
        f"I'm {words.random.randint(5, 40)} minutes late",
        f"{noun} meeting moved to {clock(words)}",
        f"thanks for the {noun}",
        f"please bring the {noun} to {words.pick('city')}",
        f"{words.pick('first')} likes {noun}",
        f"add {noun} {words.pick('noun')}",
        f"good {noun}",
        _pick(THINGS["task"], words),
    )
    return words.random.choice(forms)


def day(words: Words) -> str:
    """A day as it is said."""
    pick, number = words.random.choice, words.random.randint(1, 28)
    weekday, month = pick(DAYS[3:]), pick(MONTHS.split())
    forms = (f"next {weekday}", f"{month} {number}", f"{number} {month}", f"{weekday} evening")
    more = (f"the {number}th of {month}", isodate(words), "this weekend", "next week", weekday)
    return pick(forms + more) if words.random.random() < 0.55 else pick(DAYS)


def isodate(words: Words) -> str:
    """A date in digits."""
    r = words.random
    return f"{r.randint(2019, 2031)}-{r.randint(1, 12):02}-{r.randint(1, 28):02}"


def clock(words: Words) -> str:
    """A time of day as it is said."""
    hour, minute = words.random.randint(1, 12), words.random.choice((0, 15, 30, 45, 5, 20, 50))
    late, half = words.random.randint(0, 23), words.random.choice(("am", "pm", " am", " pm"))
    forms = (f"{hour}{half}", f"{hour}:{minute:02}", f"{hour}:{minute:02}{half}")
    return words.random.choice((*forms, f"{late:02}:{minute:02}", f"{late}:{minute:02}", "noon"))


def daytime(words: Words) -> str:
    """A day, a time, or both."""
    forms = (day(words), f"{day(words)} at {clock(words)}", f"at {clock(words)}")
    more = (f"in {words.random.randint(2, 50)} minutes", "in an hour", "tonight")
    return words.random.choice(forms + forms + more)


def company(words: Words) -> str:
    """The name of a firm or a restaurant."""
    last, noun = words.pick("last"), word(words).capitalize()
    endings = (f"{last} Ltd", f"{noun} Inc", f"{last} & {words.pick('last')}", f"{noun} {last}")
    return words.random.choice((*endings, noun, f"{last}'s", f"Café {noun}", f"The {noun}"))


def project(words: Words) -> str:
    """The name of a team or a project."""
    noun = word(words)
    forms = (noun.capitalize(), noun, f"{words.pick('adjective')} {noun}", f"Project {noun}")
    return words.random.choice(forms)


def address(words: Words) -> str:
    """A street with a number, perhaps a city."""
    name = words.random.choice((words.pick("last"), words.pick("noun").capitalize()))
    street = f"{name} {words.random.choice(('Street', 'Road', 'Avenue', 'Lane', 'Square'))}"
    number = words.random.randint(1, 250)
    forms = (f"{number} {street}", f"{street} {number}", f"{number} {street}, {words.pick('city')}")
    return words.random.choice((*forms, street))


def venue(words: Words) -> str:
    """Somewhere to go."""
    places = (
        "the airport,the train station,the old town,Room 12,the library,the town hall,my office"
    )
    return words.random.choice((_pick(places, words), company(words), address(words)))


def place(words: Words) -> str:
    """A place on a map."""
    return words.random.choice((words.pick("city"), words.pick("city"), venue(words)))


def road(words: Words) -> str:
    """A road."""
    number = words.random.randint(1, 99)
    return words.random.choice((f"the A{number}", f"M{number}", f"I-{number}", address(words)))
