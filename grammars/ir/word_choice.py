"""Choices of thousands of options, read by the words that these begin with.

The values of an enumeration and the keys of an object are such options. Taking each of them apart
costs more than all the rest of a text, so they stay together until the text has ruled out most of
them; the shortest of those that are left are found by bounds that are known beforehand.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping

from grammars.ir.grammar import Rule
from grammars.ir.lexer import Position, WordRange
from grammars.ir.nodes import (
    Alternatives,
    Costly,
    Expression,
    Guarded,
    Literal,
    Repeat,
    RuleReference,
    Sequence,
)
from grammars.ir.shortest import MANY, MAX_LIKELY, NEVER, Shortest, find_bit, measure
from grammars.steps import spend

FEWEST_OPTIONS = MANY
"""Of fewer options, each is read by itself."""
MAX_SEPARATE = 16
"""So many options that are left are read each by itself."""
MAX_RANKED = 16
"""So many of the shortest options are told; no more endings are tried."""
_DEEPEST = 16  # rules and sequences around a word


class WordChoice:
    """Options that begin with a word each; stands among the lexemes, and reads all of them.

    Args:
        words: one for each option.
        options: in the order of the grammar.
        front, behind: options of the same choice that are read each by itself.
        needed: the bits that have to be set before a text of the rule can end.
    """

    lazy = False

    def __init__(
        self,
        words: list[str],
        options: list[Expression],
        *,
        front: Iterable[Expression] = (),
        behind: Iterable[Expression] = (),
        needed: int = 0,
    ):
        self.parts: tuple[Expression | WordChoice, ...] = (*front, self, *behind)
        self._needed = needed
        places = sorted(range(len(words)), key=words.__getitem__)
        self._words = [words[place] for place in places]
        self._places = places
        self._options = options
        self._ranks: _Ranks | None = None
        self._setters: dict[int, int] = {}  # by needed bits, the numbers of options
        for number, place in enumerate(places):
            bit = find_bit(options[place])
            if bit is not None and bit & needed:
                self._setters[bit] = number

    @property
    def start(self) -> WordRange:
        """In front of the word."""
        return WordRange(0, len(self._words), 0)

    def step(self, at: Position, character: str) -> WordRange | None:
        """Those that are left behind one more character; None where there are none."""
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
        """Never: an option whose word is whole is read by itself."""
        return False

    def end(self, at: Position) -> str | None:
        """The ends of the options are found one by one, see `list_shortest`."""
        return None

    def measure(self, at: Position) -> int:
        """No rest of a word has fewer characters."""
        return 0

    def split(self, at: WordRange) -> tuple[list[Expression], WordRange | None]:
        """The options that are to be read each by itself from here on, in the order of the grammar,
        and those that stay together, if any."""
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
        """The options with the shortest texts, in the order of the grammar; of those that are
        equally short, the last ones.

        Args:
            at: those that are left.
            bits: the parameter of the rule that they stand in.
            shortest: knows their texts.
        """
        ranks = self._rank(shortest)
        found: list[tuple[tuple[int, int], int]] = []  # with places, the last ones first

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
        """The numbers of the options of a range that set a bit which is missing: most likely the
        shortest text begins with one of them, even if it is a long one."""
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
        """Finds beforehand what takes long."""
        self._rank(shortest)


class _Ranks:
    """In which order options are likely to be the shortest.

    Args:
        least: by the numbers of the options, what their texts measure at least.
        places: by the same, where they stand in the grammar.
    """

    def __init__(self, least: list[tuple[int, int]], places: list[int]):
        self.least = least
        self._sorted = sorted(range(len(least)), key=lambda n: (least[n], -places[n]))
        self._ranks = [0] * len(least)
        for rank, number in enumerate(self._sorted):
            self._ranks[number] = rank

    def sort(self, at: WordRange) -> Iterable[int]:
        """The numbers of a range, in that order."""
        if at.high - at.low == len(self._ranks):
            return self._sorted
        return sorted(range(at.low, at.high), key=self._ranks.__getitem__)


class WordChoices:
    """The choices of a grammar that are read so.

    Args:
        start: the whole turn.
        rules: of the grammar.
    """

    def __init__(self, start: Expression, rules: Mapping[str, Rule]):
        self._rules = rules
        self._known: dict[int, WordChoice] = {}  # by the ids of choices, which the rules keep alive
        for rule in (Rule(start), *rules.values()):
            if not rule.is_terminal:
                for choice in _find_choices(rule.body):
                    self._add(choice, rule.needed)

    def _add(self, choice: Alternatives, needed: int) -> None:
        words, options = list[str](), list[Expression]()
        front, behind = list[Expression](), list[Expression]()
        for option in choice.options:
            spend()
            word = self._find_word(option)
            if word:
                words.append(word)
                options.append(option)
                front += behind
                behind.clear()
            else:
                behind.append(option)
        if len(words) >= FEWEST_OPTIONS:
            self._known[id(choice)] = WordChoice(
                words, options, front=front, behind=behind, needed=needed
            )

    def _find_word(self, option: Expression) -> str | None:
        """The literal that every text of an option begins with."""
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
        """The options of a choice that are read together; None if there are too few."""
        return self._known.get(id(choice))

    def prepare(self, shortest: Shortest) -> None:
        """Finds beforehand what takes long."""
        for words in self._known.values():
            words.prepare(shortest)


def _find_choices(body: Expression) -> Iterator[Alternatives]:
    """The choices in the body of a rule that may have options enough."""
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
