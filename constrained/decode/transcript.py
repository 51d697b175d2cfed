"""What a turn says so far: its tokens, their text, and what the parser reads in it."""

import codecs
from bisect import bisect_left
from collections.abc import Sequence

from constrained.decode.assistant_prefix import Trim
from constrained.decode.checked_values import EventBuffer, Fault
from constrained.decode.completion_reserve import Place
from constrained.decode.events import Sent, find_events
from constrained.decode.request import Request
from constrained.decode.stop_texts import Stopper
from constrained.logits import Scores, TokenDrawn, describe_token
from constrained.mask import Matcher
from constrained.vocabulary.vocabulary import Vocabulary
from grammars.turn import Event


class Transcript:
    """One turn as it is written. A part of it can be read again from the start (`head`).

    The prefix of the request is read first; it is not in what follows, but in `thought`.

    Attributes:
        tokens: those that were written.
        data: what they spell.
        events: what was read in it; of a turn that a stop text has ended, what may be sent of it.
        drawn: how likely its tokens were, if the request asks for that; likewise.
        thought: how many of them are reasoning, without those that close it.
    """

    def __init__(self, request: Request, vocabulary: Vocabulary):
        self._request = request
        self._vocabulary = vocabulary
        self._parser = request.parser()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._holder = EventBuffer(request.watch)
        self._stopper = Stopper(request.stops)
        self._sent: list[Sent] = []
        self._counted: list[bool] = []
        self._head = len(request.prefix.head)  # characters
        self._ends: list[int] = []  # how many characters the head and the first n tokens have
        self._is_closed = False
        self._read_of, self._sent_of = Trim(request.prefix), Trim(request.prefix)
        self.tokens: list[int] = []
        self.data = bytearray()
        self.events: list[Event] = []
        self.drawn: list[TokenDrawn] = []
        self.thought = request.prefix.thought
        if request.prefix.head:
            self._take(self._parser.feed(request.prefix.head), -1)

    @property
    def is_reasoning(self) -> bool:
        """Is the turn inside its reasoning block?"""
        return self._parser.is_reasoning

    @property
    def fault(self) -> Fault | None:
        """What does not fit, if anything."""
        return self._holder.fault

    @property
    def stopped(self) -> str | None:
        """The stop text that has ended the turn, if one has."""
        return self._stopper.found

    def write(
        self, token: int, *, counted: bool = True, scores: Scores | None = None
    ) -> Sequence[Sent]:
        """Appends a token; returns what may be sent.

        Args:
            token: what comes next.
            counted: it counts as reasoning, if it is.
            scores: how likely each token was there, if the request asks for that and the model
                has said so.
        """
        count = self._request.logprobs
        data = self._vocabulary.text([token])
        drawn = None if count is None else describe_token(token, data, scores, count)
        return self._append(token, data, counted, drawn)

    def _append(
        self, token: int, data: bytes, counted: bool, drawn: TokenDrawn | None
    ) -> Sequence[Sent]:
        place = len(self.tokens)
        text = self._decoder.decode(data)
        self.tokens.append(token)
        self._counted.append(counted)
        self._ends.append((self._ends[-1] if self._ends else self._head) + len(text))
        self.data += data
        was_reasoning = self.is_reasoning
        events = self._parser.feed(text) if text else []
        if was_reasoning and counted:
            self.thought += 1 if self.is_reasoning else -self._count_closer()
        self.drawn += [drawn] if drawn else []
        return self._take([drawn, *events] if drawn else events, place)

    def close(self, *, is_whole: bool) -> Sequence[Sent]:
        """The turn is over; returns what may be sent. A second time does nothing.

        Args:
            is_whole: it was not cut.
        """
        if self._is_closed:
            return ()
        self._is_closed = True
        rest = self._decoder.decode(b"", final=True)
        if self._request.prefix.behind(self.data)[1]:  # half a character that was given
            rest = ""
        events = [*(self._parser.feed(rest) if rest else ()), *self._parser.close()]
        sent = [*self._take(events, len(self.tokens))]
        if self.stopped is None:
            held = self._sent_of.take(self._holder.close(is_whole=is_whole))
            sent += self._stop(held, is_over=True)
        return sent

    def place(self, matcher: Matcher, tokens: Sequence[int] = ()) -> Place:
        """How far the turn has come when these tokens follow; the matcher is behind them."""
        data = self.data + self._vocabulary.text(tokens)
        count = len(self.tokens) + len(tokens)
        return Place(matcher, count, *self._request.prefix.behind(data))

    def head(self, count: int) -> "Transcript":
        """The first tokens of this turn, as if no others had come. Their events were sent."""
        head = Transcript(self._request, self._vocabulary)
        drawn = self.drawn or [None] * len(self.tokens)
        for token, counted, one in zip(self.tokens[:count], self._counted, drawn, strict=False):
            head._append(token, self._vocabulary.text([token]), counted, one)
        return head

    def _take(self, events: Sequence[Sent], place: int) -> Sequence[Sent]:
        if not events:
            return ()
        self.events += self._read_of.take(find_events(events))
        # Of a token that the call only begins in, the rest belongs to what was there before.
        start = self._parser.began
        began = bisect_left(self._ends, start) + 1 if start > self._head else 0
        return self._stop(self._sent_of.take(self._holder.take(events, place, began)))

    def _stop(self, told: Sequence[Sent], *, is_over: bool = False) -> Sequence[Sent]:
        """What of this comes before a stop text; if there is one, the turn has nothing else."""
        if not self._request.stops:
            return told
        sent = [*self._stopper.take(told), *(self._stopper.close() if is_over else ())]
        self._sent += sent
        if self.stopped is not None:
            self._is_closed = True
            self.events = find_events(self._sent)
            self.drawn = [one for one in self._sent if isinstance(one, TokenDrawn)]
        return sent

    def _count_closer(self) -> int:
        """How many tokens before the last one spell nothing but the marker that it completes."""
        closer = self._parser.closer.encode()
        start = self.data.rfind(closer)
        end, count = len(self.data), -1
        for token in reversed(self.tokens):
            end -= len(self._vocabulary.text([token]))
            if end < start:
                break
            count += 1
        return max(0, count)
