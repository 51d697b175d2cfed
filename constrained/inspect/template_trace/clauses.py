"""Finds the clause of a template that makes two of its prompts differ.

The records of both renders are compared at the first difference: the branches of the conditions
that lead to it, in the same passes of the same loops; then the values that were computed for it;
then the assignments of the variables in it, and so on back to their causes.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from jinja2 import nodes

from constrained.inspect.template_trace.tracing import Event, Site, Trace, WrittenPiece
from grammars.wire.format import count_common

_DEEPEST = 12  # variables that depend on each other
_AHEAD = ("loop.last", "loop.nextitem", "loop.revindex", "loop.revindex0", "loop.length")
_ENDS = ("[-1]", "|last", "|length", "|count")
_DATES = ("strftime_now", "datetime", "date_string", "now")
_REASONING = ("think", "reason", "thought")


class Cause(StrEnum):
    """The kind of change between two requests that a clause depends on."""

    LAST_QUERY = "the place of the last user message"
    FOLLOWING = "which messages follow"
    REASONING = "the reasoning of a message"
    DATE = "the date or time"
    PROMPT = "the text after the last message, which is not in the history"
    OTHER = "something else"


@dataclass(frozen=True)
class ChangedVariable:
    """A variable that was set to different values.

    Args:
        name: of the variable.
        values: in the earlier and in the later prompt, in Python's spelling.
        tag: the tag that has set it in the later prompt.
        line: of that tag.
    """

    name: str
    values: tuple[str, str]
    tag: str
    line: int

    def describe(self) -> str:
        """Describes the variable in one line."""
        first, second = self.values
        return f"{self.name} is {first}, then {second} (line {self.line}: {shorten(self.tag, 80)})"


@dataclass(frozen=True)
class Clause:
    """A tag of a template, and why it makes a difference.

    Args:
        tag: its source.
        line: its line.
        cause: the input on which it depends.
        changes: its variables that have different values.
    """

    tag: str
    line: int
    cause: Cause
    changes: tuple[ChangedVariable, ...] = ()

    def describe(self) -> str:
        """Describes the clause in one line."""
        changes = "; ".join(change.describe() for change in self.changes)
        clause = f"line {self.line}: {shorten(self.tag)}"
        return f"{clause}, where {changes}" if changes else clause


def shorten(text: str, max_length: int = 160) -> str:
    """Puts a text on one line, and leaves out the middle of a long one."""
    line = " ".join(text.split())
    if len(line) <= max_length:
        return line
    return f"{line[: max_length // 2]} ... {line[-max_length // 3 :]}"


def find_clause(one: Trace, other: Trace, offset: int) -> Clause | None:
    """Finds the clause that makes the first difference between two prompts, the character at
    `offset`; None: it is not known."""
    mine, yours = one.find_piece(offset), other.find_piece(offset)
    if mine is None or yours is None:
        return None
    return _Comparison(one, other).explain(mine, yours)


def explain_difference(one: Trace | None, other: Trace | None) -> Clause | None:
    """Finds the clause because of which the second prompt does not begin with the first one; None:
    it does, or a record is missing, or the clause is not known."""
    if one is None or other is None or other.text.startswith(one.text):
        return None
    return find_clause(one, other, count_common(one.text, other.text))


def find_choice(one: Trace, other: Trace) -> Clause | None:
    """Finds the clause of the first condition that took different branches; None: there is none, or
    the renders reach different conditions before."""
    comparison = _Comparison(one, other)
    for mine, yours in zip(one.choices, other.choices, strict=False):
        if mine.site != yours.site:
            return None
        if mine.branch != yours.branch:
            return comparison.name_condition(mine.site, min(mine.branch, yours.branch), mine, yours)
    return None


def find_text(trace: Trace, text: str) -> Clause | None:
    """Finds the first clause of a render that sets or writes something depending on this text."""
    events = [event for events in trace.assignments.values() for event in events]
    for event in sorted([*events, *trace.pieces], key=lambda event: event.begun):
        site = trace.sites[event.site]
        if site.tags[0] and text in "".join(_read_constants(site.node)):
            return _Comparison(trace, trace).name_clause(event)
    return None


def name_place(trace: Trace, offset: int) -> Clause | None:
    """Returns the clause that wrote the character at this offset; None if the text is shorter."""
    piece = trace.find_piece(offset)
    if piece is None:
        return None
    return _Comparison(trace, trace).name_clause(piece)


@dataclass(frozen=True)
class _Comparison:
    one: Trace
    other: Trace

    def explain(self, mine: Event, yours: Event, depth: int = 0) -> Clause:
        """Finds the clause that makes two events differ."""
        if mine.site == yours.site and mine.passes == yours.passes:
            return self._explain_value(mine, yours, depth)
        found = self._find_condition(mine, yours) or self._find_loop(mine, yours)
        if found is not None:
            return found
        if mine.passes[:1] != yours.passes[:1]:  # one of them is after all messages
            return self._distinguish(mine, yours)
        return self.name_clause(yours)

    def _find_condition(self, mine: Event, yours: Event) -> Clause | None:
        """Finds the outermost condition around one of the events that took another branch in the
        other render, in the same passes."""
        for event, own, against, limit in (
            (mine, self.one, self.other, yours),
            (yours, self.other, self.one, mine),
        ):
            site = own.sites[event.site]
            outer = len(event.passes) - len(site.loops)
            for number, branch in site.conditions:
                passes = event.passes[: outer + len(own.sites[number].loops)]
                taken = against.find_branch(number, passes, limit.done)
                if taken is not None and taken != branch:
                    return self.name_condition(number, min(taken, branch), mine, yours)
        return None

    def _find_loop(self, mine: Event, yours: Event) -> Clause | None:
        """Finds the loop of one of the events, if the other one is in another loop: a template may
        iterate over messages in two parts."""
        first, second = self._site(mine).loops, self._site(yours).loops
        if not first or not second or first[0] == second[0]:
            return None
        for number in (first[0], second[0]):
            loop = self.one.sites[number]
            changes = self._compare_variables(_read_iterated(loop), mine, yours)
            if changes:
                return Clause(loop.tags[0], loop.line, self._find_cause([loop]), changes)
        return None

    def _explain_value(self, mine: Event, yours: Event, depth: int) -> Clause:
        """Returns the clause because of which one place has computed two values."""
        ours, theirs = self.one.list_choices(mine), self.other.list_choices(yours)
        for first, second in zip(ours, theirs, strict=False):
            if first.site != second.site:
                break
            if first.branch != second.branch:
                least = min(first.branch, second.branch)
                return self.name_condition(first.site, least, first, second)
        if depth < _DEEPEST:
            for name in sorted(read_names(self._site(mine).node)):
                first = self.one.find_assignment(name, mine.begun)
                second = self.other.find_assignment(name, yours.begun)
                if first is not None and second is not None and first.value != second.value:
                    return self.explain(first, second, depth=depth + 1)
        return self.name_clause(mine)

    def _site(self, event: Event) -> Site:
        return self.one.sites[event.site]

    def name_condition(self, number: int, test: int, mine: Event, yours: Event) -> Clause:
        """Returns the clause of a condition if its test with this number has different results."""
        site = self.one.sites[number]
        test = min(test, len(site.tests) - 1)
        expression, tag = site.tests[test], site.tags[min(test, len(site.tags) - 1)]
        line = expression.lineno if len(site.tags) > 1 else site.line
        changes = self._compare_variables(read_names(expression), mine, yours)
        return Clause(tag, line, self._find_cause([site], test=test), changes)

    def _compare_variables(
        self, names: Iterable[str], mine: Event, yours: Event
    ) -> tuple[ChangedVariable, ...]:
        changes: list[ChangedVariable] = []
        for name in sorted(names):
            first = self.one.find_assignment(name, mine.done)
            second = self.other.find_assignment(name, yours.done)
            if second is not None and (first is None or first.value != second.value):
                site = self._site(second)
                before = "not set" if first is None else shorten(first.value, 60)
                values = before, shorten(second.value, 60)
                changes.append(ChangedVariable(name, values, site.tags[0], site.line))
        return tuple(changes)

    def _distinguish(self, mine: Event, yours: Event) -> Clause:
        """Returns the clause if one render is after all messages, and the other inside a turn."""
        trace, event = self.one, mine
        if len(mine.passes) < len(yours.passes):
            trace, event = self.other, yours
        if isinstance(event, WrittenPiece) and event.start > 0:
            # The text before could have continued as in the other render.
            before = trace.find_piece(event.start - 1)
            if before is not None and before.passes[:1] == event.passes[:1]:
                event = before
        tag, line = self._nearest_tag(self._site(event))
        return Clause(tag, line, Cause.PROMPT)

    def _nearest_tag(self, site: Site) -> tuple[str, int]:
        """Returns the tag and line of the innermost condition around a place, or of the place
        itself."""
        if not site.conditions:
            return site.tags[0], site.line
        number, branch = site.conditions[-1]
        condition = self.one.sites[number]
        test = min(branch, len(condition.tags) - 1)
        return condition.tags[test], condition.tests[test].lineno

    def name_clause(self, event: Event) -> Clause:
        """Returns the clause of the place itself."""
        site = self._site(event)
        cause = self._find_cause([site])
        if site.tags[0]:
            return Clause(site.tags[0], site.line, cause)
        return Clause(*self._nearest_tag(site), cause)

    def _find_cause(self, sites: Iterable[Site], *, test: int = 0) -> Cause:
        """Finds what places depend on, directly and through the variables that they read."""
        facts = _Facts()
        pending = list(sites)
        seen: set[str] = set()
        while pending:
            site = pending.pop()
            read = site.tests[test] if site.tests else site.node
            names = _read_iterated(site) or read_names(read)
            facts.add(read, names)
            for name in names - seen:
                seen.add(name)
                for setter in self.one.sites:
                    if name in setter.names:
                        pending.append(setter)
                        self._add_surroundings(setter, facts)
            test = 0
        return facts.name_cause()

    def _add_surroundings(self, setter: Site, facts: "_Facts") -> None:
        """Adds the conditions and loops around the place where a variable is set."""
        for number, branch in setter.conditions:
            tests = self.one.sites[number].tests
            if branch < len(tests):
                facts.add(tests[branch], read_names(tests[branch]))
                facts.is_under_user |= "user" in _read_constants(tests[branch])
        for number in setter.loops:
            loop = self.one.sites[number].node
            if isinstance(loop, nodes.For):
                facts.add(loop.iter, read_names(loop.iter))


@dataclass
class _Facts:
    """The variables and texts in expressions, and whether they test for user messages."""

    names: set[str] = field(default_factory=set[str])
    constants: set[str] = field(default_factory=set[str])
    is_under_user: bool = False
    looks_ahead: bool = False

    def add(self, node: nodes.Node, names: Iterable[str]) -> None:
        """Adds an expression."""
        self.names.update(names)
        self.constants |= _read_constants(node)
        self.looks_ahead |= _looks_ahead(node)

    def name_cause(self) -> Cause:
        """Returns the most likely cause."""
        ends = any(name.endswith(_ENDS) for name in self.names)
        if self.names.intersection(_DATES):
            return Cause.DATE
        if self.is_under_user or (ends and "user" in self.constants):
            return Cause.LAST_QUERY
        if ends or self.looks_ahead or self.names.intersection(_AHEAD):
            return Cause.FOLLOWING
        words = " ".join([*self.names, *self.constants]).lower()
        if any(word in words for word in _REASONING):
            return Cause.REASONING
        return Cause.OTHER


def _looks_ahead(node: nodes.Node) -> bool:
    """Returns whether an expression indexes a list by the number of the pass, or from its end."""
    for part in (node, *node.find_all(nodes.Getitem)):
        if not isinstance(part, nodes.Getitem):
            continue
        if any(name.name == "loop" for name in part.arg.find_all(nodes.Name)):
            return True
        if isinstance(part.arg, nodes.Slice) and any(part.arg.find_all(nodes.Neg)):
            return True
    return False


def _read_iterated(site: Site) -> set[str]:
    """Returns the variables that a loop iterates over; empty for any other place."""
    return read_names(site.node.iter) if isinstance(site.node, nodes.For) else set()


def read_names(node: nodes.Node) -> set[str]:
    """Returns what an expression reads: `x`, `x.attribute`, `messages[-1]`, `messages|length`."""
    found: set[str] = set()
    if isinstance(node, (nodes.Assign, nodes.AssignBlock)):
        parts = [node.node] if isinstance(node, nodes.Assign) else node.body
        for part in parts:
            found |= read_names(part)
        return found
    for part in (node, *node.find_all(nodes.Expr)):
        match part:
            case nodes.Getattr(node=nodes.Name(name=name), attr=attribute):
                found.add(f"{name}.{attribute}")
            case nodes.Getitem(node=nodes.Name(name=name), arg=nodes.Const(value=value)):
                found.add(f"{name}[{value!r}]")
            case nodes.Getitem(
                node=nodes.Name(name=name), arg=nodes.Neg(node=nodes.Const(value=1))
            ):
                found.add(f"{name}[-1]")
            case nodes.Filter(node=nodes.Name(name=name), name=filtered):
                found.add(f"{name}|{filtered}")
            case nodes.Name(name=name):
                found.add(name)
            case _:
                pass
    return found


def _read_constants(node: nodes.Node) -> set[str]:
    found: set[str] = set()
    for part in (node, *node.find_all(nodes.Const)):
        if isinstance(part, nodes.Const) and isinstance(part.value, str):
            found.add(part.value)
    return found
