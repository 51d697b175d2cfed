"""Parses the beginning of a text with a grammar, as llguidance does, and finds its endings.

The parser keeps all possible readings of the text so far (like Earley's algorithm, with shared
stacks of callers as in generalised LL parsing). Its input are lexemes. As in llguidance, the lexer
decides where a lexeme ends, depending on the lexemes that may begin at its start: it continues
while any of them can, and a lazy lexeme ends at its first match. A special token ends the lexeme
before it. If a text spells a special token in ordinary characters, both readings are kept: the
chart may accept more than llguidance, but never less.
"""

import re
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from grammars.limits.steps import spend
from grammars.turn_grammar.ir.grammar import Grammar
from grammars.turn_grammar.ir.lexer import Lexer, Machine, Position
from grammars.turn_grammar.ir.nodes import (
    Alternatives,
    Costly,
    EmbeddedLark,
    Expression,
    Guarded,
    Literal,
    Repeat,
    RuleReference,
    Sequence,
    Token,
)
from grammars.turn_grammar.ir.shortest import (
    NO_TEXT,
    Completion,
    Shortest,
    apply,
    find_end,
    join,
    pick_shorter,
)
from grammars.turn_grammar.ir.word_choice import WordChoice, WordChoices, WordRange

MAX_ENDINGS = 1_000
"""How many endings of a rest are kept: one for each parameter of its rule."""
MAX_COSTLY = 4
"""Up to this number, nested costly expressions are counted."""


class UnknownEndError(Exception):
    """The text is in a grammar that the user wrote, whose endings are not known."""


@dataclass(eq=False, slots=True)
class Rest:
    """The part of a rule's body that is not read yet.

    Args:
        expression: the next part.
        after: the part after it.
        endings: the shortest texts of both, as far as known, by the parameter of the rule.
    """

    expression: "Lexeme"
    after: "Rest | None"
    endings: dict[int, Completion | None] = field(default_factory=dict[int, "Completion | None"])


class Caller(NamedTuple):
    """A rule that is being read, or that continues when another rule ends.

    Args:
        rest: the unread part of its body.
        bits: its parameter.
        frame: where it began.
        costly: how many costly expressions were entered since the last lexeme.
    """

    rest: Rest | None
    bits: int
    frame: "Frame"
    costly: int = 0

    def with_rest(self, rest: Rest | None) -> "Caller":
        """Returns the same rule with another rest."""
        # Ten times as fast as `_replace`; it is called for each option of a choice of thousands.
        return Caller(rest, self.bits, self.frame, self.costly)


@dataclass(eq=False, slots=True)
class Frame:
    """A rule that began at an offset of the text; all its callers share it.

    Args:
        start: the offset.
        callers: the rules that continue after it.
        is_blank: it can match the empty text.
    """

    start: int
    callers: list[Caller] = field(default_factory=list[Caller])
    is_blank: bool = False


Lexeme: TypeAlias = Expression | WordChoice
"""An expression for which a row waits."""


class LexemeRun(NamedTuple):
    """A lexeme that is being read."""

    lexeme: Lexeme
    machine: Machine
    at: Position


@dataclass(eq=False, slots=True)
class ChartRow:
    """An offset of the text at which lexemes begin.

    Args:
        start: the offset.
        waiting: for each lexeme that may come next: the rules that wait for it.
        running: these lexemes, as far as the text has been read.
        may_end: the turn may end here.
        frames: the rules that began here, by name and parameter.
        seen: all callers. This keeps their frames alive, so that no other frame gets the same `id`.
    """

    start: int
    waiting: dict[Lexeme, list[Caller]] = field(default_factory=dict[Lexeme, list[Caller]])
    running: list[LexemeRun] = field(default_factory=list[LexemeRun])
    may_end: bool = False
    frames: dict[tuple[str, int], Frame] = field(default_factory=dict[tuple[str, int], Frame])
    seen: dict[tuple[int, int, int, int], Caller] = field(
        default_factory=dict[tuple[int, int, int, int], Caller]
    )


class Chart:
    """All readings of a text that grows.

    Args:
        grammar: the grammar.
        lexer: the lexemes of the grammar.
        choices: its choices that are read by an index.
    """

    def __init__(self, grammar: Grammar, lexer: Lexer, choices: WordChoices):
        self.text = ""
        self._rules = grammar.rules
        self._lexer = lexer
        self._choices = choices
        self._names = _express_tokens(grammar)
        self._longest_name = max(map(len, grammar.tokens), default=0)
        self._rests: dict[tuple[int, int], Rest] = {}  # so that equal rests are the same object
        self._root = Frame(0)
        self._fewer: dict[int, Repeat] = {}  # by the ids of repeats, which `_rests` keeps alive
        self._open: list[ChartRow] = []
        self._token_ends: set[int] = set()  # ends of texts that are read as special tokens
        self._due: dict[int, list[Caller]] = {}
        self._begin(0, [Caller(self._link(grammar.start, None), 0, self._root)])

    def may_grow_to(self, text: str) -> bool:
        """Returns whether the text begins with the current one, which does not end inside a special
        token of it."""
        if not text.startswith(self.text):
            return False
        end = len(self.text)
        return not any(at < end < at + len(name) for at, name in self._find_tokens(text).items())

    def grow(self, text: str) -> None:
        """Reads more text.

        Args:
            text: the whole text; it begins with the current one.
        """
        tokens = self._find_tokens(text)
        rows, self._open = self._open, []
        since, self.text = len(self.text), text
        for row in rows:
            self._scan(row, since, tokens)
        while self._due:
            start = min(self._due)
            row = self._begin(start, self._due.pop(start))
            if row is not None:
                self._scan(row, start, tokens)

    def _find_tokens(self, text: str) -> dict[int, str]:
        """Returns the special tokens in the new part of a text, by offset."""
        since = max(0, len(self.text) - self._longest_name)
        return {found.start(): found[1] for found in self._names.finditer(text, since)}

    @property
    def lexeme_start(self) -> int:
        """The offset of the last lexeme; if there are several readings, the smallest."""
        return min((row.start for row in self._open), default=len(self.text))

    def has_reading(self, since: int | None = None) -> bool:
        """Returns whether the text has a reading. With `since`: one whose last lexeme began at or
        before this offset, without a special token after the offset."""
        if since is None:
            return bool(self._open)
        if any(end > since for end in self._token_ends):
            return False
        return any(row.start <= since for row in self._open)

    def find_endings(self, shortest: Shortest) -> Iterator[Completion]:
        """Yields the shortest ending of each reading: the rest of the lexeme, and the text after
        it.

        Text that spells a special token was most likely meant as that token, so other readings
        count only if that one has no ending.
        """
        if any(row.may_end and row.start == len(self.text) for row in self._open):
            yield NO_TEXT
            return
        known: dict[Frame, Completion | None] = {self._root: NO_TEXT}
        latest = max((row.start for row in self._open), default=0)
        since = max((end for end in self._token_ends if end <= latest), default=0)
        likely = [row for row in self._open if row.start >= since]
        found = [*self._find_endings_of(likely, shortest, known)]
        if not found:
            found = [*self._find_endings_of(self._open, shortest, known)]
        yield from found

    def _find_endings_of(
        self,
        rows: list[ChartRow],
        shortest: Shortest,
        known: dict[Frame, Completion | None],
    ) -> Iterator[Completion]:
        for row in rows:
            for lexeme, machine, at in row.running:
                for end, caller in self._list_ends(row, LexemeRun(lexeme, machine, at), shortest):
                    spend()
                    after = self._follow(caller, shortest, known)
                    if after is not None:
                        yield join(end._replace(costly=caller.costly), after)

    def _list_ends(
        self, row: ChartRow, run: LexemeRun, shortest: Shortest
    ) -> Iterator[tuple[Completion, Caller]]:
        """Yields the shortest rest of a lexeme, with each rule that waits for it; for a choice, the
        shortest ones of its options."""
        lexeme, machine, at = run
        if not isinstance(lexeme, WordChoice):
            end = find_end(machine, at)
            if end is not None:
                yield from ((end, caller) for caller in row.waiting[lexeme])
            return
        assert isinstance(at, WordRange)
        for caller in row.waiting[lexeme]:
            options = lexeme.list_shortest(at, caller.bits, shortest)
            for word, callers in self._expand_options(row, [caller], options).items():
                rest = find_end(self._find_machine(word), at.size)
                assert rest is not None, "it is a literal"
                yield from ((rest, following) for following in callers)

    def fork(self) -> "Chart":
        """Returns a chart of the same text, which grows independently.

        Frames are shared, since a frame does not change after its row has begun.
        """
        other = copy(self)
        other._due = {}
        other._token_ends = set(self._token_ends)
        other._open = [copy(row) for row in self._open]
        return other

    def _follow(
        self, caller: Caller, shortest: Shortest, known: dict[Frame, Completion | None]
    ) -> Completion | None:
        """Returns the shortest text for the rest of a rule and of all its callers."""
        rest = _find_rest(caller, shortest)
        if rest is None:
            return None
        above = self._leave(caller.frame, shortest, known)
        return None if above is None else join(rest, above)

    def _leave(
        self, frame: Frame, shortest: Shortest, known: dict[Frame, Completion | None]
    ) -> Completion | None:
        """Returns the shortest text after a rule. Uses a stack instead of recursion, since values
        may be nested deeply."""
        stack = [frame]
        while stack:
            top = stack[-1]
            spend(1 + len(top.callers))
            if known.get(top) is not None:
                stack.pop()
                continue
            missing = [c.frame for c in top.callers if c.frame not in known]
            if top not in known and missing:
                known[top] = None  # a path that returns to it is not the shortest
                stack += missing
                continue
            best: Completion | None = None
            for caller in top.callers:
                rest, above = _find_rest(caller, shortest), known.get(caller.frame)
                if rest is not None and above is not None:
                    best = pick_shorter(best, join(rest, above))
            known[top] = best
            stack.pop()
        return known[frame]

    def _begin(self, start: int, callers: list[Caller]) -> ChartRow | None:
        """Begins a row with these rules; None if it is not to be scanned (yet)."""
        row = ChartRow(start)
        self._expand_all(callers, row)
        for lexeme in row.waiting:
            machine = self._find_machine(lexeme)
            row.running.append(LexemeRun(lexeme, machine, machine.start))
        if not row.running and not row.may_end:
            return None
        if start == len(self.text):
            self._open.append(row)
            return None
        return row

    def _find_machine(self, lexeme: Lexeme) -> Machine:
        if isinstance(lexeme, WordChoice):
            return lexeme
        return self._lexer.machine(lexeme)

    def _expand_all(self, callers: list[Caller], row: ChartRow) -> None:
        """Expands the callers down to lexemes, the last one first."""
        while callers:
            spend()
            caller = callers.pop()
            key = id(caller.rest), caller.bits, id(caller.frame), caller.costly
            if key in row.seen:
                continue
            row.seen[key] = caller
            if caller.rest is None:
                self._return(caller.frame, row, callers)
            else:
                self._expand(caller.rest, caller, row, callers)

    def _return(self, frame: Frame, row: ChartRow, callers: list[Caller]) -> None:
        """Continues the callers of a rule that has ended."""
        if frame is self._root:
            row.may_end = True
        if frame.start == row.start:
            frame.is_blank = True
        callers += frame.callers

    def _expand(
        self,
        rest: Rest,
        caller: Caller,
        row: ChartRow,
        callers: list[Caller],
    ) -> None:
        """Expands the next expression of a caller: adds new callers, or waits for a lexeme."""
        match rest.expression:
            case Sequence(parts):
                after = rest.after
                for part in reversed(parts):
                    after = self._link(part, after)
                callers.append(caller.with_rest(after))
            case Literal(""):
                callers.append(caller.with_rest(rest.after))
            case Alternatives(options) as choice:
                words = self._choices.find(choice)
                for option in options if words is None else words.parts:
                    callers.append(caller.with_rest(self._link(option, rest.after)))
            case WordChoice() as words:
                row.waiting.setdefault(words, []).append(caller)
            case Guarded(body, condition):
                if condition.holds(caller.bits):
                    callers.append(caller.with_rest(self._link(body, rest.after)))
            case Costly(body):
                body_rest = self._link(body, rest.after)
                costly = min(caller.costly + 1, MAX_COSTLY)  # a repeat may enter it often
                callers.append(caller._replace(rest=body_rest, costly=costly))
            case Repeat() as repeat:
                for following in self._repeat(repeat, rest.after):
                    callers.append(caller.with_rest(following))
            case RuleReference(name) as reference if not self._rules[name].is_terminal:
                callers += self._enter_rule(reference, caller, row)
            case EmbeddedLark():
                raise UnknownEndError
            case lexeme:
                following = caller.with_rest(rest.after)
                row.waiting.setdefault(lexeme, []).append(following)
                if not isinstance(lexeme, Token):
                    machine = self._find_machine(lexeme)
                    if machine.accepts(machine.start):  # llguidance skips an empty lexeme
                        callers.append(following)

    def _enter_rule(self, reference: RuleReference, caller: Caller, row: ChartRow) -> list[Caller]:
        """Begins the rule that comes next in a caller; returns what to expand then."""
        assert caller.rest is not None, "the reference is in it"
        name, after = reference.name, caller.rest.after
        given = 0 if reference.argument is None else apply(reference.argument, caller.bits)
        body = self._link(self._rules[name].body, None)
        if after is None:
            # A tail call: long lists need no deep stack.
            return [Caller(body, given, caller.frame, caller.costly)]
        called = row.frames.setdefault((name, given), Frame(row.start))
        following = Caller(after, caller.bits, caller.frame)
        called.callers.append(following)
        begun = Caller(body, given, called, caller.costly)
        return [begun, following] if called.is_blank else [begun]

    def _expand_options(
        self, row: ChartRow, waiting: list[Caller], options: list[Expression]
    ) -> dict[Lexeme, list[Caller]]:
        """Expands some options of a choice like separate alternatives. Returns the rules that wait
        for their words.

        The row does not change, except for its frames, which may get callers again that they have
        already.
        """
        callers: list[Caller] = []
        for caller in reversed(waiting):
            assert caller.rest is not None, "it waits for the choice"
            after = caller.rest.after
            callers += [caller.with_rest(self._link(option, after)) for option in options]
        part = ChartRow(row.start, frames=dict(row.frames), seen=dict(row.seen))
        self._expand_all(callers, part)
        return part.waiting

    def _separate(self, row: ChartRow, choice: WordChoice, at: WordRange) -> list[LexemeRun]:
        """Splits a choice whose range has become smaller: into options that are read separately
        from now on, and the rest, which stays together."""
        options, rest = choice.split(at)
        runs: list[LexemeRun] = []
        waiting = dict(row.waiting)  # a copy, since forks share it
        for word, callers in self._expand_options(row, waiting[choice], options).items():
            if word not in waiting:
                runs.append(LexemeRun(word, self._find_machine(word), at.size))
            waiting[word] = [*waiting.get(word, ()), *callers]
        row.waiting = waiting
        if rest is not None:
            runs.append(LexemeRun(choice, choice, rest))
        return runs

    def _repeat(self, repeat: Repeat, after: Rest | None) -> Iterator[Rest | None]:
        """Yields the continuations of a repeat: its body once more, or what follows the repeat."""
        body, fewest, most = repeat.body, repeat.fewest, repeat.most
        if fewest == 0:
            yield after
        if most == 0:
            return
        if fewest == 0 and most is None:
            again = repeat
        else:
            left = None if most is None else most - 1
            again = self._fewer.setdefault(id(repeat), Repeat(body, max(0, fewest - 1), left))
        yield self._link(body, after if again.most == 0 else self._link(again, after))

    def _link(self, expression: Lexeme, after: Rest | None) -> Rest:
        key = id(expression), id(after)
        rest = self._rests.get(key)
        if rest is None:
            rest = self._rests[key] = Rest(expression, after)
        return rest

    def _scan(self, row: ChartRow, since: int, tokens: dict[int, str]) -> None:
        """Reads the lexemes of a row from an offset on, until one of them or the text ends."""
        text, running, offset = self.text, row.running, since
        stops = [at for at in tokens if at >= since]
        while offset < len(text):
            if offset in tokens:
                self._read_token(row, running, offset, tokens[offset])
            if len(running) == 1:
                # Most of a text is long strings, in which no other lexeme is possible.
                lexeme, machine, at = running[0]
                stop = next((at for at in stops if at > offset), len(text))
                at, offset = machine.skip(at, text, offset, stop)
                running = [LexemeRun(lexeme, machine, at)]
                if offset == stop:
                    continue
            spend(len(running))
            following: list[LexemeRun] = []
            is_over = False
            for lexeme, machine, at in running:
                after = machine.step(at, text[offset])
                if isinstance(after, WordRange):
                    assert isinstance(lexeme, WordChoice)
                    following += self._separate(row, lexeme, after)
                elif after is not None:
                    following.append(LexemeRun(lexeme, machine, after))
                    if machine.lazy and machine.accepts(after):
                        is_over = True
            if not following:
                self._emit(row, running, offset)
                return
            running = following
            offset += 1
            if is_over:
                self._emit(row, running, offset)
                return
        row.running = running
        self._open.append(row)

    def _read_token(self, row: ChartRow, running: list[LexemeRun], offset: int, name: str) -> None:
        """Reads a special token at the offset: it ends a lexeme, or is the first lexeme of the
        row."""
        if offset > row.start:
            self._emit(row, running, offset)
            return
        for lexeme in row.waiting:
            if isinstance(lexeme, Token) and lexeme.name == name:
                self._token_ends.add(offset + len(name))
                self._leave_lexeme(row, lexeme, offset + len(name))

    def _emit(self, row: ChartRow, running: list[LexemeRun], offset: int) -> None:
        """Ends the lexemes that match up to the offset."""
        for lexeme, machine, at in running:
            if offset > row.start and machine.accepts(at):
                self._leave_lexeme(row, lexeme, offset)

    def _leave_lexeme(self, row: ChartRow, lexeme: Lexeme, offset: int) -> None:
        """Continues all rules that wait for a lexeme after it."""
        due = self._due.setdefault(offset, [])
        for caller in row.waiting[lexeme]:
            due.append(Caller(caller.rest, caller.bits, caller.frame))


def _find_rest(caller: Caller, shortest: Shortest) -> Completion | None:
    """Returns the shortest text for the rest of a rule."""
    rest, bits = caller.rest, caller.bits
    if rest is None:
        return NO_TEXT
    if bits not in rest.endings:
        if len(rest.endings) >= MAX_ENDINGS:
            rest.endings.clear()
        assert not isinstance(rest.expression, WordChoice), "its options are ended one by one"
        ending = shortest.find(rest.expression, bits)
        after = _find_rest(Caller(rest.after, bits, caller.frame), shortest)
        if ending is None or after is None:
            rest.endings[bits] = None
        else:
            rest.endings[bits] = join(ending, after)
    return rest.endings[bits]


def _express_tokens(grammar: Grammar) -> re.Pattern[str]:
    """Returns a pattern for the names of special tokens; the longest name wins."""
    names = sorted(grammar.tokens, key=len, reverse=True)
    return re.compile(f"(?=({'|'.join(map(re.escape, names)) or '(?!)'}))")
