"""The shortest legal completion of a turn, for the moment when the tokens run out.

What the grammar of `lark.build_grammar` has let through is read again by the same format, schemas
and policy, and ended: the reasoning is closed, an open string is closed, only required keys follow.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from grammars.complete_answer import AnswerEnd, read_answer, skip_space
from grammars.complete_call import Call
from grammars.complete_scalar import Fit, decide, fit_words, join
from grammars.languages import pick_shortest
from grammars.lark import begin_call
from grammars.turn import Choice, Policy, Start, State, Think, Tool
from grammars.wire import Format, Node


class Completer:
    """Finds the shortest completions of turns. Not for two threads at once.

    Args:
        format, tools, policy, state: what the grammar was built of, by `build_grammar`.
    """

    def __init__(self, format: Format, tools: Sequence[Tool], policy: Policy, state: State):
        self._format = format
        self._policy = policy
        self._state = state
        self._tools = policy.select(tools)
        self._calls: dict[tuple[Node, ...], list[Call]] = {}

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
        answer = self._policy.answer
        return None if answer is None else read_answer(answer, self._format, openings)

    def _heads(self, text: str) -> Iterator[int | str]:
        """Where what follows the reasoning begins; or, if that is not closed, what closes it.

        Half an opener is anything else if it can be: one token of the vocabulary has no half.
        """
        block, think, start = self._format.reasoning, self._policy.think, self._state.start
        shut = start is Start.CLOSED or (start is Start.PLAIN and think is Think.FORBIDDEN)
        if block is None or shut:
            yield 0
            return
        closer, at = block.closer.text, 0
        if start is Start.PLAIN:
            fit = fit_words(text, skip_space(text, 0), block.opener.text)
            if not isinstance(fit, int):
                if think is not Think.REQUIRED:
                    yield 0
                yield from () if fit is None else (fit + closer,)
                return
            at = fit
        elif think is Think.FORBIDDEN:
            fit = fit_words(text, skip_space(text, 0), closer)
            yield from () if fit is None else (fit,)
            return
        end = text.find(closer, at)
        yield closer if end < 0 else end + len(closer)

    def _body(self, text: str, at: int) -> str | None:
        """The rest of content, calls or an answer that begins at that index."""
        required = self._policy.choice is Choice.REQUIRED
        free = self._answer is None
        if free and not required and self._is_content(text[at:]):
            return ""
        if self._answer is not None and not required:
            answer = self._answer.end(text, at, self._pad(at))
            if answer is not None:  # half an opener is that, too; and a call might have effects
                return answer
        if self._tools and self._format.bare is not None:
            return self._end_calls(text, skip_space(text, at), self._format.call)
        at_once = required or not free
        return pick_shortest(self._openings(text, at, at_once=at_once)) if self._tools else None

    def _pad(self, at: int) -> str:
        """White space that may stand in front of an answer that begins at that index."""
        block = self._format.reasoning
        if block is None or self._state.start is Start.CLOSED:
            return self._state.pad
        return block.after if at else ""

    def _is_content(self, text: str) -> bool:
        """May all of it be content?"""
        if any(marker in text for marker in self._format.reserved):
            return False
        bare = self._format.bare
        return not (bare and self._tools and re.match(begin_call(bare), text))

    def _openings(self, text: str, at: int, *, at_once: bool) -> Iterator[str | None]:
        """The rest of the calls, for each way to open the first one.

        Where nothing is written yet, the template's own way. Half an opener leaves all ways open,
        and the shortest is right: it is text, where the other may be one token of the vocabulary.
        """
        for opener, nodes in self._format.openings.items():
            if not at_once:
                place = text.find(opener, at)
                if place >= 0 and self._is_content(text[at:place]):
                    yield self._end_calls(text, place + len(opener), nodes)
                continue
            fit = fit_words(text, skip_space(text, at), opener)
            if isinstance(fit, int):
                yield self._end_calls(text, fit, nodes)
            else:
                yield join(fit, self._shortest_call(nodes))
            if fit == opener:
                return

    def _end_calls(self, text: str, at: int, nodes: tuple[Node, ...]) -> str | None:
        """The rest of the calls, from behind the first opener on."""
        format, fit = self._format, self._call(text, at, nodes)
        after = {"", format.after}
        again = self._policy.parallel and not format.single and format.opener is not None
        while isinstance(fit, int):
            rest = text[fit:] if len(text) - fit <= len(format.after) else None
            ends = [a[len(rest) :] for a in after if rest is not None and a.startswith(rest)]
            if not again or "" in ends:
                return pick_shortest(ends)
            assert format.opener is not None
            more = fit_words(text, fit, format.between + format.opener.text)
            if not isinstance(more, int):
                return pick_shortest([*ends, join(more, self._shortest_call(format.call[1:]))])
            fit = self._call(text, more, format.call[1:])
        return fit

    def _call(self, text: str, at: int, nodes: tuple[Node, ...]) -> Fit:
        """Reads one call of any tool, without its opener."""
        return decide(call.read(text, at) for call in self._spell(nodes))

    def _shortest_call(self, nodes: tuple[Node, ...]) -> str | None:
        return pick_shortest(call.shortest for call in self._spell(nodes))

    def _spell(self, nodes: tuple[Node, ...]) -> list[Call]:
        """These nodes, for each tool."""
        if nodes not in self._calls:
            style = self._format.hole.style
            self._calls[nodes] = [Call(tool, nodes, style) for tool in self._tools]
        return self._calls[nodes]
