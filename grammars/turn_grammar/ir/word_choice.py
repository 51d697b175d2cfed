"""Choices with thousands of options, read by the words at the beginning of the options.

Examples are the values of an enumeration and the keys of an object. Expanding each option would
cost more than the rest of the text. So the options stay together until the text has excluded most
of them, and lower bounds that are computed in advance find the shortest of the rest.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping

from grammars.limits.steps import spend
from grammars.turn_grammar.ir.grammar import Rule
from grammars.turn_grammar.ir.lexer import Position, WordRange
from grammars.turn_grammar.ir.nodes import (
    Alternatives,
    Costly,
    Expression,
    Guarded,
    Literal,
    Repeat,
    RuleReference,
    Sequence,
)
from grammars.turn_grammar.ir.shortest import MANY, MAX_LIKELY, NEVER, Shortest, find_bit, measure

FEWEST_OPTIONS = MANY
"""With fewer options, each is read separately."""
MAX_SEPARATE = 16
"""When at most this many options are left, each is read separately."""
MAX_RANKED = 16
"""The limit for shortest options that are listed."""
_DEEPEST = 16  # the limit for rules and sequences around a word


class WordChoice:
    """Options that each begin with a word. It is used like a lexeme, and reads all of them.

    Args:
        words: the word of each option.
        options: in the order of the grammar.
        front, after: other options of the same choice, which are read separately.
        needed: the bits that must be set before a text of the rule can end.
    """

    lazy = False

    def __init__(
        self,
        words: list[str],
        options: list[Expression],
        *,
        front: Iterable[Expression],
        after: Iterable[Expression],
        needed: int,
    ):
        self.parts: tuple[Expression | WordChoice, ...] = (*front, self, *after)
        self._needed = needed
        places = sorted(range(len(words)), key=words.__getitem__)
        self._words = [words[place] for place in places]
        self._places = places
        self._options = options
        self._ranks: _Ranks | None = None
        self._setters: dict[int, int] = {}  # numbers of options, by the needed bit that they set
        for number, place in enumerate(places):
            bit = find_bit(options[place])
            if bit is not None and bit & needed:
                self._setters[bit] = number

    @property
    def start(self) -> WordRange:
        """The state before the word."""
        return WordRange(0, len(self._words), 0)

    def step(self, at: Position, character: str) -> WordRange | None:
        """Returns the options that are left after one more character; None: none."""
        assert isinstance(at, WordRange)
        low, high, size = at

        def find_next(word: str) -> str:
            return word[size : size + 1]

        first = bisect_left(self._words, character, low, high, key=find_next)
        last = bisect_right(self._words, character, first, high, key=find_next)
        return WordRange(first, last, size + 1) if first < last else None

    def skip(self, at: Position, text: str, offset: int, stop: int) -> tuple[Position, int]:
        """Skips nothing."""
        return at, offset

    def accepts(self, at: Position) -> bool:
        """Never: an option whose word is complete is read separately."""
        return False

    def end(self, at: Position) -> str | None:
        """Not known here; `list_shortest` finds the endings of the options."""
        return None

    def measure(self, at: Position) -> int:
        """Returns a lower bound for the rest of the words."""
        return 0

    def split(self, at: WordRange) -> tuple[list[Expression], WordRange | None]:
        """Splits the options into those that are read separately from now on, in the order of the
        grammar, and the range that stays together, if any."""
        stop = at.high
        if at.high - at.low > MAX_SEPARATE:
            whole = self._words[at.low][: at.size]
            stop = bisect_right(self._words, whole, at.low, at.high)
        rest = WordRange(stop, at.high, at.size) if stop < at.high else None
        return self._list_options(range(at.low, stop)), rest

    def _list_options(self, numbers: Iterable[int]) -> list[Expression]:
        places = sorted(self._places[number] for number in numbers)
        return [self._options[place] for place in places]

    def list_shortest(self, at: WordRange, bits: int, shortest: Shortest) -> list[Expression]:
        """Returns the options with the shortest texts, in the order of the grammar; of equally
        short ones, the last.

        Args:
            at: the options that are left.
            bits: the parameter of the rule.
            shortest: finds their texts.
        """
        ranks = self._rank(shortest)
        found: list[tuple[tuple[int, int], int]] = []  # with -place: last ones first

        def find(number: int) -> None:
            spend()
            place = self._places[number]
            ending = shortest.find(self._options[place], bits)
            if ending is not None:
                insort(found, (measure(ending), -place))

        needed = self._list_needed(at, bits)
        for number in needed:
            find(number)
        tried = 0
        for number in ranks.sort(at):
            least = ranks.least[number]
            is_settled = len(found) >= MAX_RANKED and found[MAX_RANKED - 1][0] <= least
            if is_settled or least >= NEVER or (found and tried >= MAX_LIKELY):
                break
            if number not in needed:
                find(number)
                tried += 1
        places = [-place for _, place in found[:MAX_RANKED]]
        return [self._options[place] for place in sorted(places)]

    def _list_needed(self, at: WordRange, bits: int) -> set[int]:
        """Returns the numbers of the options of a range that set a missing bit. The shortest text
        most likely begins with one of them, even if it is long."""
        missing = self._needed & ~bits
        setters = {number for bit, number in self._setters.items() if bit & missing}
        return {number for number in setters if at.low <= number < at.high}

    def _rank(self, shortest: Shortest) -> "_Ranks":
        if self._ranks is None:
            least: list[tuple[int, int]] = []
            for place in self._places:
                least.append(shortest.measure_least(self._options[place]))
            self._ranks = _Ranks(least, self._places)
        return self._ranks

    def prepare(self, shortest: Shortest) -> None:
        """Does expensive work in advance."""
        self._rank(shortest)


class _Ranks:
    """The options by the lower bounds of their texts.

    Args:
        least: the lower bound of each option.
        places: the position of each option in the grammar.
    """

    def __init__(self, least: list[tuple[int, int]], places: list[int]):
        self.least = least
        self._sorted = sorted(range(len(least)), key=lambda n: (least[n], -places[n]))
        self._ranks = [0] * len(least)
        for rank, number in enumerate(self._sorted):
            self._ranks[number] = rank

    def sort(self, at: WordRange) -> Iterable[int]:
        """Returns the numbers of a range in this order."""
        if at.high - at.low == len(self._ranks):
            return self._sorted
        return sorted(range(at.low, at.high), key=self._ranks.__getitem__)


class WordChoices:
    """The choices of a grammar that are read by words.

    Args:
        start: the expression of the whole turn.
        rules: the rules of the grammar.
    """

    def __init__(self, start: Expression, rules: Mapping[str, Rule]):
        self._rules = rules
        self._known: dict[int, WordChoice] = {}  # by the `id` of a choice; rules keep choices alive
        for rule in (Rule(start), *rules.values()):
            if not rule.is_terminal:
                for choice in _find_choices(rule.body):
                    self._add(choice, rule.needed)

    def _add(self, choice: Alternatives, needed: int) -> None:
        words, options = list[str](), list[Expression]()
        front, after = list[Expression](), list[Expression]()
        for option in choice.options:
            spend()
            word = self._find_word(option)
            if word:
                words.append(word)
                options.append(option)
                front += after
                after.clear()
            else:
                after.append(option)
        if len(words) >= FEWEST_OPTIONS:
            self._known[id(choice)] = WordChoice(
                words, options, front=front, after=after, needed=needed
            )

    def _find_word(self, option: Expression) -> str | None:
        """Returns the literal at the beginning of every text of an option."""
        for _ in range(_DEEPEST):
            match option:
                case Literal(text):
                    return text
                case Sequence(parts) if parts:
                    option = parts[0]
                case Guarded(body):
                    option = body
                case RuleReference(name, None) if not self._rules[name].is_terminal:
                    option = self._rules[name].body
                case _:
                    return None
        return None

    def find(self, choice: Alternatives) -> WordChoice | None:
        """Returns the options of a choice that are read together; None: it has too few."""
        return self._known.get(id(choice))

    def prepare(self, shortest: Shortest) -> None:
        """Does expensive work in advance."""
        for words in self._known.values():
            words.prepare(shortest)


def _find_choices(body: Expression) -> Iterator[Alternatives]:
    """Yields the choices in the body of a rule that may have enough options."""
    stack = [body]
    while stack:
        match stack.pop():
            case Alternatives(options) as choice:
                if len(options) >= FEWEST_OPTIONS:
                    yield choice
                stack += options
            case Sequence(parts):
                stack += parts
            case Repeat(inner) | Guarded(inner) | Costly(inner):
                stack.append(inner)
            case _:
                pass
