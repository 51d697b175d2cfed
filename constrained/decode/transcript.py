"""The turn so far: its tokens, their text, and the events that the parser reads in the text."""

import codecs
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from constrained.decode.filters.call_limits import CallLimiter
from constrained.decode.filters.checked_values import EventBuffer
from constrained.decode.filters.events import StreamEvent, find_events
from constrained.decode.filters.stop_texts import StopFilter
from constrained.decode.filters.written_prefill import PrefillFilter
from constrained.decode.request import Request
from constrained.decode.token_trace import Observation, TokenSource
from constrained.decode.turn_part import TurnProgress
from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.mask.logprobs import TokenDrawn, TokenScores, describe_token
from constrained.mask.matcher import Matcher
from constrained.prompt.job import NO_LIMITS
from grammars.parse.output import AnswerText
from grammars.schema.pointers import point_to
from grammars.turn import (
    ArgumentsDelta,
    ArgumentStart,
    CallOpened,
    ContentDelta,
    Event,
    ReasoningDelta,
)
from grammars.wire.envelopes import ForeignCall


@dataclass(frozen=True)
class TokenOrigin:
    """Where tokens of a turn come from.

    Args:
        is_sampled: the sampler has chosen them.
        counts: they count as reasoning tokens inside a reasoning block.
        is_new: their events have not been sent yet.
        is_said: their content was sent before, as that of other tokens.
        scores: the scores of all tokens at this position; None: the request does not want log
            probabilities, or the model was not evaluated here.
        observation: what the trace notes at this position; None: no trace, or the model was not
            evaluated here.
    """

    is_sampled: bool = False
    counts: bool = True
    source: TokenSource = TokenSource.FORCED
    is_new: bool = True
    is_said: bool = False
    scores: TokenScores | None = None
    observation: Observation | None = None


SAMPLED = TokenOrigin(is_sampled=True, source=TokenSource.DRAWN)
FORCED = TokenOrigin()
ONLY = TokenOrigin(source=TokenSource.ONLY)
INSERTED = TokenOrigin(counts=False, source=TokenSource.INSERTED)
SAID = TokenOrigin(counts=False, source=TokenSource.INSERTED, is_said=True)
WRITTEN = TokenOrigin(source=TokenSource.WRITTEN, is_new=False)


@dataclass(frozen=True)
class TextPlace:
    """A place in the text of a turn."""

    count: int
    text: str


@dataclass(frozen=True)
class _Envelope:
    """Where the turn goes on in the envelope of a call.

    Args:
        drops_rest: see `Parser.go_on`.
    """

    found: ForeignCall
    start: int
    since: int
    drops_rest: bool


class Transcript:
    """One turn while it is written. Its first tokens can be read again from the start (`cut`).

    The text of the assistant prefill is read first, but is no event of the turn. Only
    `reasoning_tokens` counts it.

    Attributes:
        data: the bytes of these tokens.
        events: all events; if a stop text has ended the turn, only those that may be sent.
        logprobs: one for each token, if the request wants them; after a stop text, as for `events`.
        checks, limiter, stops: the filters that the events pass before they are sent.
        is_over: a text of the template has ended the turn.
        is_healing: the next tokens have to spell text of the prefill (token healing).
        output_start: the position of the first token of the latest call or answer. If the call
            begins inside a token, its first token is the next one.
        reasoning_tokens: the number of reasoning tokens, without those that close the block.
        text_end: the number of tokens up to the end of the last reasoning or content; the start of
            a call comes after them.
    """

    def __init__(self, request: Request, vocabulary: Vocabulary):
        self._request = request
        self._prefill = request.turn.prefill
        self._vocabulary = vocabulary
        self._parser = request.turn.make_parser()
        # Tokens may end inside a UTF-8 character; the parser reads whole ones.
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        # An answer that the client has begun stays as it is.
        is_json = request.turn.answer is not None and not self._prefill.message.content
        self._answer = AnswerText() if is_json else None
        self._known = PrefillFilter(self._prefill) if self._prefill.has_text else None
        # A call in another envelope is led back: its tokens are replaced.
        self._may_go_back = request.turn.envelopes is not None
        self._counts: list[bool] = []  # for each token: it counts as reasoning, if it is
        self._prefill_length = len(self._prefill.text)  # characters
        self._ends: list[int] = []  # characters of the prefill and the first n tokens
        self._healed = len(self._prefill.rest)  # bytes
        self._is_closed = False
        self._envelope: _Envelope | None = None
        self.tokens: list[int] = []
        self.data = bytearray()
        self.position = -1
        self.events: list[Event] = []
        self.logprobs: list[TokenDrawn] = []
        self.reasoning_tokens = self._prefill.reasoning_tokens
        self.text_end = 0
        self.output_start = 0
        self._output_place = 0  # where it begins, in characters
        schemas, limits = request.turn.checked_schemas, request.turn.call_limits
        self.checks = None
        if not schemas.is_empty:
            self.checks = EventBuffer(schemas, self, self._prefill.message.content)
        self.limiter = None
        if limits != NO_LIMITS or self._may_go_back:
            self.limiter = CallLimiter(limits, may_go_back=self._may_go_back)
        self.stops = StopFilter(request.options.stops) if request.options.stops else None
        self._filters = self._list_filters()
        self._look()
        if self._prefill.text:  # it stands in front of the first token
            self._send(self._parser.feed(self._prefill.text))

    def _list_filters(self) -> list[EventBuffer | CallLimiter | StopFilter]:
        filters = (self.checks, self.limiter, self.stops)
        return [one for one in filters if one is not None]

    def _look(self) -> None:
        """Notes where the text so far ends. Parts ask for it several times for each token."""
        parser = self._parser
        self.is_reasoning = parser.is_reasoning
        self.is_in_call = parser.is_in_call
        self.is_over = parser.is_over
        self.is_healing = len(self.data) < self._healed
        if parser.output_start != self._output_place:
            self._output_place = parser.output_start
            is_given = self._output_place <= self._prefill_length
            self.output_start = 0 if is_given else bisect_left(self._ends, self._output_place) + 1

    def find_after_text(self) -> bytes:
        """The bytes after the last reasoning or content."""
        return self._vocabulary.text(self.tokens[self.text_end :])

    def find_place(self) -> str:
        """JSON pointer into the reply: to the current argument, or else to the content."""
        if not self.is_in_call:
            return "/content"
        return _find_argument(self.events, len(self._parser.call_ends))

    @property
    def foreign_call(self) -> ForeignCall | None:
        """The call in another envelope that the turn has just begun; otherwise None."""
        return self._parser.foreign_call

    def find_place_of(self, offset: int) -> TextPlace | None:
        """Finds a place in the turn, in characters; None: it is inside the prefill."""
        if offset < self._prefill_length:
            return None
        count = bisect_right(self._ends, offset)
        start = self._ends[count - 1] if count else self._prefill_length
        after = self._vocabulary.text(self.tokens[count:]).decode("utf-8", "replace")
        return TextPlace(count, after[: offset - start])

    def decline_foreign_call(self) -> Sequence[StreamEvent]:
        """Takes the call in another envelope as text; returns the events that may be sent."""
        return self._send(self._parser.decline())

    def go_on(self, found: ForeignCall, *, start: int, drops_rest: bool) -> Sequence[StreamEvent]:
        """Goes on in the envelope of a call; returns the events that may be sent.

        Args:
            drops_rest: see `Parser.go_on`.
        """
        self._envelope = _Envelope(found, start, since=len(self.tokens), drops_rest=drops_rest)
        return self._send(self._parser.go_on(found, drops_rest=drops_rest))

    @property
    def stopped(self) -> str | None:
        """The stop text that has ended the turn; None: none has."""
        return None if self.stops is None else self.stops.found

    def admit_barred_call(self, limiter: CallLimiter) -> Sequence[StreamEvent]:
        """Lets the excluded call pass; returns the events that may be sent."""
        held = limiter.admit_barred()
        sent = held if self.stops is None else self.stops.take(held)
        self._end_at_stop()
        return sent

    def write(self, token: int, origin: TokenOrigin = FORCED) -> Sequence[StreamEvent]:
        """Appends a token; returns the events that may be sent."""
        data = self._vocabulary.tokens[token]
        event = None
        if self._request.options.logprobs is not None:
            event = describe_token(token, data, origin.scores, count=self._request.options.logprobs)
        return self._append(token, data, counts=origin.counts, event=event)

    def _append(
        self, token: int, data: bytes, *, counts: bool, event: TokenDrawn | None
    ) -> Sequence[StreamEvent]:
        start = self._ends[-1] if self._ends else self._prefill_length
        text = self._decoder.decode(data)
        self.position = len(self.tokens)
        self.tokens.append(token)
        self._counts.append(counts)
        self._ends.append(start + len(text))
        self.data += data
        was_reasoning = self.is_reasoning
        events: Sequence[StreamEvent] = ()
        if text:
            events = self._parser.feed(text)
            self._look()
        if was_reasoning and counts:
            if self.is_reasoning:
                self.reasoning_tokens += 1
            else:
                texts = [self._vocabulary.tokens[token] for token in self.tokens]
                self.reasoning_tokens -= _count_last(texts, self._parser.closer.encode())
        has_closed = was_reasoning and not self.is_reasoning
        if has_closed or any(isinstance(one, ReasoningDelta | ContentDelta) for one in events):
            self.text_end = len(self.tokens)
        if event is not None:
            self.logprobs.append(event)
            is_first = not self._may_go_back or _says_all(events, text)
            events = [event, *events] if is_first else [*events, event]
        return self._filter(events) if events else ()

    def close(self, *, is_whole: bool) -> Sequence[StreamEvent]:
        """Ends the turn; returns the events that may be sent. A second call does nothing."""
        if self._is_closed:
            return ()
        self._is_closed = True
        rest = self._decoder.decode(b"", final=True)
        _, unspelled = self._prefill.after(self.data)
        if unspelled:  # half a character of the prefill, which the client has given
            rest = ""
        self.position = len(self.tokens)
        events = self._parser.feed(rest) if rest else []
        events += self._parser.close()
        self._look()
        sent = self._note(events)
        for one in self._filters:
            sent = [*one.take(sent), *one.close(is_whole=is_whole)]
        self._end_at_stop()
        return sent

    def measure(self, matcher: Matcher, tokens: Sequence[int] = ()) -> TurnProgress:
        """The progress of the turn after these further tokens, which the matcher has committed."""
        data = self.data + self._vocabulary.text(tokens)
        text, rest = self._prefill.after(data)
        if self._envelope is not None:  # its grammar does not begin with the turn
            before = self._vocabulary.text(self.tokens[: self._envelope.start])
            text, rest = bytes(data[len(before) :]), b""
        return TurnProgress(matcher, len(self.tokens) + len(tokens), text, rest=rest)

    def cut_after_call(self, index: int) -> tuple["Transcript", bytes]:
        """Cuts the turn after a call.

        Returns:
            The transcript of the whole tokens up to there. If the call ends inside a token, also
            the bytes of this token that belong to the call.
        """
        end = self._parser.call_ends[index]
        count = bisect_left(self._ends, end)
        if count < len(self._ends) and self._ends[count] == end:
            count += 1
        head = self.cut(count)
        head.limiter = None  # only the ending of the turn follows
        head._filters = head._list_filters()
        start = head._ends[-1] if head._ends else self._prefill_length
        after = self.data[len(head.data) :].decode("utf-8", "replace")
        return head, after[: end - start].encode()

    def cut(self, count: int) -> "Transcript":
        """A transcript of the first tokens alone. Its events count as sent."""
        head = Transcript(self._request, self._vocabulary)
        for position, token in enumerate(self.tokens[:count]):
            data = self._vocabulary.tokens[token]
            event = self.logprobs[position] if self.logprobs else None
            head._append(token, data, counts=self._counts[position], event=event)
            kept = self._envelope
            if kept is not None and kept.since == position + 1:
                head.go_on(kept.found, start=kept.start, drops_rest=kept.drops_rest)
        return head

    def _send(self, events: Sequence[StreamEvent]) -> Sequence[StreamEvent]:
        """Notes events that were read; returns those that may be sent."""
        self._look()
        return self._filter(events)

    def _note(self, events: Sequence[StreamEvent]) -> Sequence[StreamEvent]:
        """Notes events that were read, without the text that the client has given."""
        if self._answer is not None:
            events = self._answer.take(events)
        if self._known is not None:
            events = self._known.take(events)
        self.events += find_events(events)
        return events

    def _filter(self, events: Sequence[StreamEvent]) -> Sequence[StreamEvent]:
        """Notes the events of a token; returns those that may be sent."""
        sent = self._note(events)
        for one in self._filters:
            sent = one.take(sent)
        self._end_at_stop()
        return sent

    def _end_at_stop(self) -> None:
        stops = self.stops
        if stops is not None and stops.found is not None:
            self._is_closed = True
            self.events = find_events(stops.passed)
            self.logprobs = [event for event in stops.passed if isinstance(event, TokenDrawn)]


def _find_argument(events: Sequence[Event], call: int) -> str:
    """JSON pointer to the argument that the events end in, or else to the arguments of the call."""
    arguments = ["tool_calls", call, "arguments"]
    for event in reversed(events):
        if isinstance(event, CallOpened):
            break
        if not isinstance(event, ArgumentsDelta) or not event.boundaries:
            continue
        if isinstance(last := event.boundaries[-1], ArgumentStart):
            return point_to([*arguments, last.key])
        break  # this argument is complete
    return point_to(arguments)


def _count_last(tokens: Sequence[bytes], closer: bytes) -> int:
    """The number of the last tokens that have the closer of the reasoning, without the last one."""
    text = b"".join(tokens)
    start, end, count = text.rfind(closer), len(text), -1
    for token in reversed(tokens):
        end -= len(token)
        if end < start:
            break
        count += 1
    return max(0, count)


def _says_all(events: Sequence[Event], text: str) -> bool:
    """Returns whether the events say the text of their token to its end, or belong to a call. If
    not, the rest may turn out to be a call, and the token may be replaced."""
    texts = [e.text for e in events if isinstance(e, ContentDelta | ReasoningDelta)]
    if len(texts) < len(events):
        return True
    said = "".join(texts)
    return said.endswith(text) or (bool(said) and text.endswith(said))
