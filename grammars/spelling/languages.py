"""Sets of texts that a value is written in: is a text in it, and how can a beginning go on?"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

from grammars.ir.nodes import Language as Language
from grammars.regex.automaton import Automaton, compile_regexes
from grammars.regex.ranges import NUMBER, express_range
from grammars.regex.texts import ANY
from grammars.schema.nodes import Number, String

LARGEST = 10**15
"""Multiples are no larger where the schema sets no bound."""


def pick_shortest(options: Iterable[str | None]) -> str | None:
    """The shortest of the texts, the first of several; None if there is none."""
    return min((o for o in options if o is not None), key=len, default=None)


@dataclass(frozen=True)
class Words(Language):
    """These texts."""

    words: tuple[str, ...]

    def accepts(self, text: str) -> bool:
        return text in self.words

    def extend(self, text: str) -> str | None:
        return pick_shortest(w[len(text) :] for w in self.words if w.startswith(text))


@dataclass(frozen=True)
class SizedTexts(Language):
    """Texts of so many characters that an automaton accepts, if there is one."""

    fewest: int
    most: int | None
    automaton: Automaton | None

    def accepts(self, text: str) -> bool:
        fits = self.fewest <= len(text) and (self.most is None or len(text) <= self.most)
        return fits and (self.automaton is None or self.automaton.accepts(text))

    def extend(self, text: str) -> str | None:
        fewest = max(0, self.fewest - len(text))
        most = None if self.most is None else self.most - len(text)
        if self.automaton is not None:
            return self.automaton.extend(text, fewest, most)
        return "a" * fewest if most is None or fewest <= most else None


@dataclass(frozen=True)
class Unknown(Language):
    """Texts of which nothing is known."""

    def accepts(self, text: str) -> bool:
        return True  # the mask has let it through

    def extend(self, text: str) -> str | None:
        return None


@dataclass(frozen=True)
class Multiples(Language):
    """Decimals within bounds that are multiples, as llguidance spells them: whole, or with all the
    decimal places of the divisor.

    Args:
        node: a number with `multipleOf`.
    """

    node: Number

    def accepts(self, text: str) -> bool:
        number = Fraction(text)
        low, high = self._limits(len(text), negative=False)
        return number % self._divisor == 0 and low <= number * 10 ** len(text) <= high

    def extend(self, text: str) -> str | None:
        negative = text.startswith("-")
        found = pick_shortest(self._continue(text[negative:], negative=negative))
        if not text and found is None:
            rest = self.extend("-")
            return None if rest is None else "-" + rest
        if found is None and negative and self.node.integer:  # a negative zero is an integer, too
            return {"-": "0", "-0": ""}.get(text)
        return found

    def _continue(self, digits: str, *, negative: bool) -> Iterator[str | None]:
        """Ends of these digits: for each count of further digits the least number that fits."""
        whole, point, fraction = digits.partition(".")
        places = self._places
        if point:
            left = places - len(fraction)
            if left >= 0:
                least = int(whole + fraction) * 10**left
                found = self._find(least, least + 10**left - 1, places, negative)
                yield None if found is None else _point(found, places)[len(digits) :]
            return
        for more in range(1 if whole == "0" else 17):
            low = int(whole) * 10**more if whole else 10 ** (more - 1) if more > 1 else 0
            high = low + 10**more - 1 if whole else 10**more - 1
            if not whole and not more:
                continue
            for shown in {0, places}:
                span = low * 10**shown, (high + 1) * 10**shown - 1
                found = self._find(*span, shown, negative)
                yield None if found is None else _point(found, shown)[len(digits) :]

    @property
    def _divisor(self) -> Fraction:
        return Fraction(repr(self.node.bounds["multipleOf"]))

    @property
    def _places(self) -> int:
        """The decimal places of the divisor."""
        if self.node.integer:
            return 0
        return next(n for n in range(400) if (self._divisor * 10**n).denominator == 1)

    def _find(self, low: int, high: int, places: int, negative: bool) -> int | None:
        """The least n from `low` to `high` such that n / 10^places, with that sign, fits."""
        least, greatest = self._limits(places, negative)
        step = (self._divisor * 10**places).numerator
        found = -(-max(low, least, int(negative)) // step) * step
        return found if found <= min(high, greatest) else None

    def _limits(self, places: int, negative: bool) -> tuple[int, int]:
        """The least and the greatest n within the bounds."""
        low, high = Fraction(-LARGEST), Fraction(LARGEST)
        spoken = " ".join(self.node.bounds).lower()
        lows, highs = list[int](), list[int]()
        scale = 10**places
        if "minimum" not in spoken:
            lows.append(floor(low * scale))
        if "maximum" not in spoken:
            highs.append(ceil(high * scale))
        for keyword, bound in self.node.bounds.items():
            value = Fraction(repr(bound)) * scale
            match keyword:
                case "minimum":
                    lows.append(ceil(value))
                case "exclusiveMinimum":
                    lows.append(floor(value) + 1)
                case "maximum":
                    highs.append(floor(value))
                case "exclusiveMaximum":
                    highs.append(ceil(value) - 1)
                case _:
                    pass
        low_n, high_n = max(lows), min(highs)
        return (-high_n, -low_n) if negative else (low_n, high_n)


def _point(number: int, places: int) -> str:
    """A number of so many decimal places in digits."""
    whole, fraction = divmod(number, 10**places)
    return f"{whole}.{fraction:0{places}}" if places else str(whole)


def speak_number(node: Number) -> Language:
    """How the numbers of a node are written."""
    if "multipleOf" in node.bounds:
        return Multiples(node)
    regex: str | None = NUMBER
    if node.bounds or node.integer:
        regex = express_range(node.bounds, integer=node.integer)
    automaton = None if regex is None else compile_regexes((regex,))
    return Unknown() if automaton is None else SizedTexts(0, None, automaton)


def speak_string(node: String, without: str | None = None) -> Language:
    """The characters of the strings of a node that do not match `without`."""
    if node.pattern is None and without is None:
        return SizedTexts(node.min_length, node.max_length, None)
    automaton = compile_regexes((node.pattern or ANY,), () if without is None else (without,))
    if automaton is None:
        return Unknown()
    return SizedTexts(node.min_length, node.max_length, automaton)
