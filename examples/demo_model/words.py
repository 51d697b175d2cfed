# pyright: reportMissingImports=false
"""Real words for names and values: from Faker, wonderwords and pycountry (extra `train`).

Each list is cut in two: what is trained on, and what only evaluation says.
"""

import hashlib
import importlib
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

HELD_OUT = 12  # one word of so many is kept for evaluation
CITY_LOCALES = ("de_DE", "nl_NL", "pl_PL", "sv_SE", "fi_FI", "da_DK", "cs_CZ")
BIG_CITIES = """
Paris,London,Berlin,Rome,Madrid,Tokyo,New York,Los Angeles,Chicago,Toronto,Sydney,Melbourne,Oslo,
Stockholm,Copenhagen,Helsinki,Vienna,Zurich,Geneva,Brussels,Amsterdam,Dublin,Lisbon,Porto,Athens,
Istanbul,Cairo,Nairobi,Lagos,Mumbai,Delhi,Bangkok,Singapore,Seoul,Beijing,Shanghai,Hong Kong,
San Francisco,Seattle,Boston,Miami,Denver,Austin,Houston,Dallas,Montreal,Vancouver,Mexico City,Lima,
Bogotá,Santiago,Buenos Aires,São Paulo,Rio de Janeiro,Cape Town,Dubai,Tel Aviv,Prague,Budapest,
Warsaw,Kraków,Munich,Hamburg,Cologne,Frankfurt,Milan,Naples,Florence,Venice,Barcelona,Seville,
Valencia,Lyon,Marseille,Nice,Bordeaux,Edinburgh,Glasgow,Manchester,Liverpool,Bristol,Leeds,York
"""


def is_held_out(word: str) -> bool:
    """Whether evaluation alone says this word; the same on every run."""
    return hashlib.sha256(word.encode()).digest()[0] % HELD_OUT == 0


@lru_cache(maxsize=1)
def _lists() -> dict[str, tuple[str, ...]]:
    import pycountry
    from faker.providers.person.en_US import Provider as English
    from wonderwords import RandomWord

    words = RandomWord()
    short = {
        kind: sorted({w for w in words.filter(include_categories=[kind]) if _is_plain(w)})
        for kind in ("noun", "verb", "adjective")
    }
    countries = [getattr(c, "common_name", c.name) for c in pycountry.countries]
    languages = [language.name for language in pycountry.languages if hasattr(language, "alpha_2")]
    lists: dict[str, Iterable[str]] = {
        **short,
        "first": English.first_names,
        "last": English.last_names,
        "city": (*_small_cities(), *BIG_CITIES.replace("\n", "").split(",") * 6),
        "country": [c for c in countries if len(c) < 22 and "," not in c],
        "language": [name for name in languages if name.isalpha()],
    }
    return {name: tuple(sorted(values)) for name, values in lists.items()}


def _is_plain(word: str) -> bool:
    return word.isascii() and word.isalpha() and word.islower() and 2 < len(word) < 13


def _small_cities() -> list[str]:
    found = set[str]()
    for locale in CITY_LOCALES:
        provider = importlib.import_module(f"faker.providers.address.{locale}").Provider
        found.update(getattr(provider, "cities", None) or provider.city_names)
    return sorted(found)


@dataclass(frozen=True)
class Words:
    """Words to draw from.

    Attributes:
        random: draws them.
        held_out: whether to draw the words of evaluation, not those of training.
        pieces: letter tokens of the vocabulary; random words are made of them.
    """

    random: random.Random
    held_out: bool = False
    pieces: Sequence[str] = field(default=("ba", "ko", "ri", "ten", "lu", "sha", "mir", "do"))

    def pick(self, kind: str) -> str:
        """A word of a kind: noun, verb, adjective, first, last, city, country, language."""
        words = _split(kind, self.held_out)
        return words[int(self.random.random() * len(words))]

    def invent(self) -> str:
        """A word that can be spoken, and that no dictionary has."""
        starts, middles = "b br c ch d dr f g gr h j k l m n p pl r s sh st t tr v w z", "a e i o u"
        ends = "n r l x sh nd rt k m th  "
        count = self.random.choice((1, 2, 2, 3))
        pick = self.random.choice
        body = "".join(pick(starts.split()) + pick(middles.split()) for _ in range(count))
        return body + pick(ends.split(" "))

    def scramble(self) -> str:
        """A word of random tokens, so that each token is copied now and then."""
        return "".join(self.random.choice(self.pieces) for _ in range(self.random.randint(1, 3)))


@lru_cache(maxsize=64)
def _split(kind: str, held_out: bool) -> tuple[str, ...]:
    return tuple(w for w in _lists()[kind] if is_held_out(w) == held_out)
