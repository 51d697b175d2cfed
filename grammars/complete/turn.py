"""The shortest legal completion of a turn, for the moment when the tokens run out.

What the grammar of `lark.build_grammar` has let through is read again by the same format, schemas
and policy, and ended: the reasoning is closed, an open string is closed, only required keys follow.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from grammars.build.calls import COUNTED, find_index
from grammars.complete.answer import AnswerEnd, fit_spaced, read_answer, skip_space
from grammars.complete.call import Call, Chain
from grammars.complete.scalar import Fit, decide, fit_words, join
from grammars.complete.tagged import find_inside
from grammars.spelling.json_call import begin_call, style_arguments
from grammars.spelling.languages import pick_shortest
from grammars.spelling.python import find_around
from grammars.turn import Choice, Policy, Start, State, Think, Tool
from grammars.wire.format import Content, Format, Marker, Node, PythonArguments, Reasoning


class Completer:
    """Finds the shortest completions of turns. Not for two threads at once.

    Args:
        format, tools, policy, state, markers: what the grammar was built of, by `build_grammar`.
    """

    def __init__(
        self,
        format: Format,
        tools: Sequence[Tool],
        policy: Policy,
        state: State,
        markers: Iterable[str] = (),
    ):
        self._format = format
        self._names = tuple(sorted(markers, key=len, reverse=True))
        self._reserved = (*format.reserved, *self._names)
        self._policy = policy
        self._state = state
        self._tools = policy.select(tools)
        self._every = tuple(tool.name for tool in tools)
        self._calls: dict[tuple[tuple[Node, ...], int | None], list[Call]] = {}

    def complete(self, text: str) -> str | None:
        """What to write behind `text`, so that the turn is whole: "" if it may end there.

        Half a closer of the reasoning is left to the reasoning, and the whole closer follows: if
        the closer is one token of the vocabulary, nothing else closes the block. The pads of the
        template are left out: the parser does not count them as text.

        Args:
            text: what the model has written behind the prompt; the grammar has let it through.

        Returns:
            None where no completion is known: an answer by a user's own grammar, an expression
            that cannot be read, or a text that the grammar does not take.
        """
        try:
            rests = (
                self._body(text, head) if isinstance(head, int) else join(head, self._body("", 0))
                for head in self._heads(text)
            )
            return next((rest for rest in rests if rest is not None), None)
        except RecursionError:  # the schema refers to itself, and the text does so endlessly
            return None

    @cached_property
    def _answer(self) -> AnswerEnd | None:
        openings = tuple(self._format.openings) if self._tools else ()
        answer, order = self._policy.answer, self._policy.key_order
        return None if answer is None else read_answer(answer, self._format, openings, order)

    def _heads(self, text: str) -> Iterator[int | str]:
        """Where what follows the reasoning begins; or, if that is not closed, what closes it.

        Half an opener is anything else if it can be: one token of the vocabulary has no half.
        """
        block, think, start = self._format.reasoning, self._policy.think, self._state.start
        shut = start is Start.CLOSED or (start is Start.PLAIN and think is Think.FORBIDDEN)
        shut = shut or bool(self._state.lead)
        if block and start is Start.PLAIN and self._may_start_closed(block):
            again = fit_spaced(text, 0, block.closer.text)
            yield from (again,) if isinstance(again, int) else ()
        if block and start is Start.CLOSED and not (self._state.lead or self._answer):
            again = fit_spaced(text, 0, block.closer.text)
            yield again if isinstance(again, int) else 0
            if isinstance(again, str):
                yield again
            return
        if block is None or shut:
            yield 0
            return
        closer, at = block.closer.text, 0
        if start is Start.PLAIN:
            fit = fit_spaced(text, 0, block.opener.text)
            if not isinstance(fit, int):
                if think is not Think.REQUIRED:
                    yield 0
                yield from () if fit is None else (fit + closer,)
                return
            at = fit
        elif think is Think.FORBIDDEN:
            fit = fit_spaced(text, 0, closer)
            yield from () if fit is None else (fit,)
            return
        end = text.find(closer, at)
        yield closer[self._count_half(text, at, closer) :] if end < 0 else end + len(closer)

    def _may_start_closed(self, block: Reasoning) -> bool:
        """May the closer stand where no reasoning is?"""
        thinks = self._policy.think is Think.REQUIRED or self._state.lead or self._policy.answer
        return block.starts_closed and not thinks

    def _body(self, text: str, at: int) -> str | None:
        """The rest of content, calls or an answer that begins at that index."""
        if self._state.lead:
            text, at = text[:at] + self._state.lead + text[at:], at
        required = self._tools and self._policy.choice is Choice.REQUIRED
        if not required:
            whole = (self._whole(way, text, at) for way in self._format.contents)
            found = next((rest for rest in whole if rest is not None), None)
            if found is not None:  # half an opener is that, too; and a call might have effects
                return found
            if self._answer is None and skip_space(text, at) == len(text):
                return ""
        if self._tools and self._format.bare is not None:
            return self._end_calls(text, skip_space(text, at), self._format.call, 0)
        return pick_shortest(self._openings(text, at)) if self._tools else None

    def _whole(self, way: Content, text: str, at: int) -> str | None:
        """The rest of a turn that is content alone, written in that way."""
        free = self._answer is None
        if not free and way != self._format.contents[0]:
            return None
        fit = fit_spaced(text, at, way.opener) if free else fit_words(text, at, way.opener)
        if not isinstance(fit, int):
            if fit is None or (free and skip_space(text, at) == len(text)):
                return None
            empty = "" if free else self._end_answer("", 0)
            return join(fit, empty, way.closer)
        if not way.closer:
            if self._answer is not None:
                return self._end_answer(text, fit, at)
            return self._end_tail(text, len(text)) if self._is_content(text[fit:]) else None
        if not free:
            return self._close_answer(text, fit, at, way.closer)
        end = text.find(way.closer, fit)
        if end >= 0:
            return self._end_tail(text, end + len(way.closer))
        half = self._count_half(text, fit, way.closer)
        return way.closer[half:] if self._is_content(text[fit : len(text) - half]) else None

    def _close_answer(self, text: str, fit: int, at: int, closer: str) -> str | None:
        """The rest of an answer and what closes it; a string of the answer may hold that, too."""
        for found in re.finditer(re.escape(closer), text[fit:]):
            end = fit + found.start()
            if self._end_answer(text[:end], fit, at) == "":
                return self._end_tail(text, end + len(closer))
        for half in set(range(1, len(closer))) - find_inside(closer, self._names):
            is_half = text.endswith(closer[:half], fit)
            if is_half and self._end_answer(text[:-half], fit, at) == "":
                return closer[half:]
        return join(self._end_answer(text, fit, at), closer)

    def _end_answer(self, text: str, at: int, start: int = 0) -> str | None:
        assert self._answer is not None
        return self._answer.end(text, at, self._pad(start) if at == start else "")

    def _end_tail(self, text: str, at: int) -> str | None:
        """Behind all that a turn has but its tail."""
        fit = fit_words(text, at, self._format.tail)
        if at == len(text):
            return ""
        return "" if fit == len(text) else fit if isinstance(fit, str) else None

    def _pad(self, at: int) -> str:
        """White space that may stand in front of an answer that begins at that index."""
        block = self._format.reasoning
        if block is None or self._state.start is Start.CLOSED:
            return self._state.pad
        return block.after if at else ""

    def _is_content(self, text: str) -> bool:
        """May all of it be content?"""
        if any(marker in text for marker in self._reserved):
            return False
        bare = self._format.bare
        return not (bare and self._tools and re.match(begin_call(bare), text))

    def _openings(self, text: str, at: int) -> Iterator[str | None]:
        """The rest of the calls, for each way to open the first one.

        Where nothing is written yet, the template's own way. Half an opener leaves all ways open,
        and the shortest is right: it is text, where the other may be one token of the vocabulary.
        """
        exact = self._policy.choice is Choice.REQUIRED or self._answer is not None
        ways = [] if exact else [c for c in self._format.contents if c.calls]
        for opener, nodes in self._format.openings.items():
            for way in ways:
                place = self._find_opener(text, at, way, opener)
                if isinstance(place, str):
                    yield join(place, self._shortest_calls(opener, nodes))
                elif place is not None:
                    yield self._end_calls(text, place, nodes, 0, opener)
            if Content() in ways:
                continue  # calls at once are calls behind no content
            fit = fit_spaced(text, at, opener)
            if isinstance(fit, int):
                yield self._end_calls(text, fit, nodes, 0, opener)
            else:
                yield join(fit, self._shortest_calls(opener, nodes))
            if fit == opener:
                return

    def _find_opener(self, text: str, at: int, way: Content, opener: str) -> Fit:
        """Where the calls behind content go on; or what is left of their opener."""
        start = fit_spaced(text, at, way.opener)
        if not isinstance(start, int):
            return None
        end, half = text.find(way.closer or opener, start), 0
        if end < 0:
            half = self._count_half(text, start, way.closer or opener)
            end = len(text) - half
        if not self._is_content(text[start:end]):
            return None
        if end + half == len(text):
            return opener[half:] if half and not way.closer else None
        if not way.closer:
            return end + len(opener)
        end += len(way.closer)
        return None if end == len(text) else fit_spaced(text, end, opener)

    def _count_half(self, text: str, at: int, tag: str) -> int:
        """How much of a tag of several tokens the text ends with: one of its tokens at least."""
        first = next((name for name in self._names if tag.startswith(name)), tag)
        inside = find_inside(tag, self._names)
        halves = range(min(len(tag) - 1, len(text) - at), len(first) - 1, -1)
        return next((n for n in halves if n not in inside and text.endswith(tag[:n])), 0)

    def _end_calls(
        self, text: str, at: int, nodes: tuple[Node, ...], number: int, opener: str = ""
    ) -> str | None:
        """The rest of the calls, from behind the first opener on."""
        format, fit = self._format, self._call(text, at, nodes, number)
        closing = self._close(opener)
        again = self._policy.parallel and not format.single and format.bare is None
        again = again and not (format.opening and not self._is_section(opener))
        while isinstance(fit, int):
            number += 1
            ends = [self._fit_end(text, fit, closing + after) for after in {"", format.after}]
            if not again or "" in ends:
                return pick_shortest(ends)
            more = fit_words(text, fit, format.between + self._lead)
            if not isinstance(more, int):
                another = self._shortest_call(format.call, number, self._lead)
                return pick_shortest([*ends, join(more, another, closing)])
            fit = self._call(text, fit + len(format.between), format.call, number)
            if not isinstance(fit, int):
                return pick_shortest([*ends, join(fit, closing)])
        return join(fit, closing)

    @property
    def _lead(self) -> str:
        """The marker that opens another call, if one does."""
        first = self._format.call[0]
        return first.text if isinstance(first, Marker) else ""

    def _is_section(self, opener: str) -> bool:
        first = self._format.opener
        return first is not None and opener == first.text

    def _close(self, opener: str) -> str:
        return "".join(node.text for node in self._format.closes(opener))

    def _fit_end(self, text: str, at: int, end: str) -> str | None:
        """The rest of what ends the turn, if that is what comes."""
        if len(text) - at in find_inside(end, self._names):
            return None  # half a token is the beginning of something else
        fit = fit_words(text, at, end)
        return self._end_tail(text, fit) if isinstance(fit, int) else fit

    def _call(self, text: str, at: int, nodes: tuple[Node, ...], number: int) -> Fit:
        """Reads one call of any tool, without its opener."""
        return decide(call.read(text, at) for call in self._spell(nodes, number))

    def _shortest_calls(self, opener: str, nodes: tuple[Node, ...]) -> str | None:
        return join(self._shortest_call(nodes, 0), self._close(opener))

    def _shortest_call(self, nodes: tuple[Node, ...], number: int, lead: str = "") -> str | None:
        """The shortest call of any tool; `lead` is written already."""
        shortest = pick_shortest(call.shortest for call in self._spell(nodes, number))
        return shortest and shortest[len(lead) :]

    def _spell(self, nodes: tuple[Node, ...], number: int) -> list[Call]:
        """These nodes, for each tool."""
        counts = find_index(self._format)
        index = counts and number < COUNTED and counts.count(self._state.calls, number)
        key = nodes, index if counts else None
        if key not in self._calls:
            style = style_arguments(self._format.hole)
            rest = key[1], self._chain, self._names, self._policy.key_order
            self._calls[key] = [Call(tool, nodes, style, *rest) for tool in self._tools]
        return self._calls[key]

    @cached_property
    def _chain(self) -> Chain | None:
        """What calls in Python have to know of each other."""
        if not isinstance(self._format.hole, PythonArguments):
            return None
        around = find_around(self._format)
        more = self._policy.parallel and not self._format.single
        follow = [around.next(tool.name) for tool in self._tools if more]
        return Chain(self._format, self._every, (around.end, *follow))
