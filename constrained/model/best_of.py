"""Best of n: generates several turns that differ in names and listed values of calls.

Taking the most likely token each time need not find the most likely call: `get_` may be likelier
than `find_`, but each tool that begins with `get_` less likely than `find_user`. So a turn is
generated first. Then its likeliest branches are generated in one batch: each has the tokens of the
turn up to a choice, and another token there. Free texts and numbers are not branched, since another
token there seldom means something else. The reply is the turn with the highest likelihood: the
product of the probabilities, among the allowed tokens, of its tokens in names and listed values.
"""

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from constrained.compile.compiled_turn import CompiledTurn
from constrained.decode.token_trace import Alternative, TokenSource, TracedToken
from constrained.errors import ReplyError
from constrained.model.call_options import TRACED, CallOptions
from constrained.model.held_events import HeldEvents
from constrained.reply import Candidate, Reply, add_trace
from constrained.schedule.streams import Sink, resolve, when_all
from constrained.trace.places import TokenPlace, TracedPart
from grammars.pointers import split_pointer
from grammars.schema.nodes import (
    AnyValue,
    Array,
    Flat,
    Node,
    Number,
    Object,
    Schema,
    String,
    flatten,
)

DIGITS = 4  # of logarithms that are compared: probabilities are sums of float32
_BLANKS = b" \t\r\n"


class Launch(Protocol):
    """A function that generates a turn, and passes its events to the sink."""

    def __call__(
        self, turn: CompiledTurn, sink: Sink, *, options: CallOptions
    ) -> Future[Reply]: ...


@dataclass(frozen=True)
class Branch:
    """Another turn that begins as one that is written.

    Args:
        tokens: its first ones, traced.
        score: the logarithm of their legal likelihood.
    """

    tokens: tuple[TracedToken, ...]
    score: float


def find_branches(reply: Reply, turn: CompiledTurn, max_branches: int) -> list[Branch]:
    """Returns the likeliest branches of a traced turn, best first.

    Args:
        reply: the turn, with its trace.
        turn: the compiled turn.
        max_branches: branches.
    """
    tokens, places = _list_live(reply)
    branches: list[Branch] = []
    score = 0.0
    for index in _find_choices(tokens, places, reply, turn):
        token = tokens[index]
        for rival in _find_rivals(tokens, index):
            another = replace(
                token,
                token=rival.token,
                text=rival.text,
                source=TokenSource.DRAWN,
                masked_probability=rival.probability,
            )
            tokens_so_far = (*tokens[:index], another)
            branches.append(Branch(tokens_so_far, score + math.log(rival.probability)))
        score += _score(token)
    branches.sort(key=lambda branch: -branch.score)
    return branches[:max_branches]


def generate_best(
    launch: Launch, turn: CompiledTurn, sink: Sink, options: CallOptions
) -> Future[Reply]:
    """Generates a turn and its branches, and chooses.

    Args:
        launch: generates the turn once.
        turn: that is generated.
        sink: takes the events of the turn that is chosen, once it is.
        options: of the call.
    """
    decode = replace(options.decode, trace=TRACED)
    outer = Future[Reply]()
    outer.set_running_or_notify_cancel()
    held = HeldEvents(sink)

    def branch(first: Reply) -> None:
        branches = find_branches(first, turn, options.best_of - 1)
        futures: list[Future[Reply]] = []
        events: list[HeldEvents] = []
        for one in branches:
            written = tuple(token.token for token in one.tokens)
            branched = replace(options, decode=replace(decode, written=written, progress=False))
            events.append(HeldEvents(sink))
            futures.append(launch(turn, events[-1].take, options=branched))

        def choose(ended: Sequence[Future[Reply]]) -> None:
            replies, held_events = [first], [held]
            for one, future, its_events in zip(branches, ended, events, strict=True):
                # What the mask could not hold does not fit there: that turn is no candidate.
                with suppress(ReplyError):
                    replies.append(join(one, future.result()))
                    held_events.append(its_events)
            number, chosen = choose_best(replies, turn)
            if options.decode.trace is None:
                chosen = replace(chosen, trace=None)
            held_events[number].release()
            outer.set_result(chosen)

        ended = when_all(futures)
        ended.add_done_callback(lambda done: resolve(outer, lambda: choose(done.result())))

    first = launch(turn, held.take, options=replace(options, decode=decode))
    first.add_done_callback(lambda done: resolve(outer, lambda: branch(done.result())))
    return outer


def choose_best(replies: Sequence[Reply], turn: CompiledTurn) -> tuple[int, Reply]:
    """Chooses the likeliest of several replies; of equal ones, the first.

    Returns:
        Returns its number, and the reply; the usage counts the tokens of all turns.
    """
    scored = [(score(reply, turn), number) for number, reply in enumerate(replies)]
    whole = [pair for pair in scored if not _is_cut(replies[pair[1]])]
    scored = whole or scored
    # Rounded, so that equally likely turns are not ordered by the last digits of a sum.
    scored.sort(key=lambda pair: -round(pair[0], DIGITS))
    best = scored[0][1]
    usage = replies[best].usage
    for number, reply in enumerate(replies):
        if number != best:
            usage = usage.add_discarded(reply.usage)
    candidates = [Candidate(replies[number].calls, math.exp(value)) for value, number in scored]
    return best, replace(replies[best], usage=usage, candidates=tuple(candidates))


def _is_cut(reply: Reply) -> bool:
    return reply.finish_reason == "length" or any(call.truncated for call in reply.calls)


def join(branch: Branch, reply: Reply) -> Reply:
    """Returns the reply of a branch. Its first tokens were traced with the first turn."""
    assert reply.trace is not None
    known = iter(branch.tokens)
    tokens: list[TracedToken] = []
    for token in reply.trace.tokens:
        if token.source is TokenSource.WRITTEN:
            token = replace(next(known), is_discarded=token.is_discarded)
        tokens.append(token)
    return add_trace(reply, replace(reply.trace, tokens=tuple(tokens)))


def score(reply: Reply, turn: CompiledTurn) -> float:
    """Returns the logarithm of the legal likelihood of a traced turn."""
    tokens, places = _list_live(reply)
    return sum(_score(tokens[index]) for index in _find_choices(tokens, places, reply, turn))


def _score(token: TracedToken) -> float:
    return math.log(max(token.masked_probability or 0.0, 1e-9))


def _list_live(reply: Reply) -> tuple[list[TracedToken], list[TokenPlace]]:
    """Returns the tokens that the turn has, and their places."""
    assert reply.trace is not None
    tokens: list[TracedToken] = []
    places: list[TokenPlace] = []
    for token, place in zip(reply.trace.tokens, reply.trace.places, strict=True):
        if place is not None and not token.is_end:
            tokens.append(token)
            places.append(place)
    return tokens, places


def _find_choices(
    tokens: Sequence[TracedToken],
    places: Sequence[TokenPlace],
    reply: Reply,
    turn: CompiledTurn,
) -> Iterator[int]:
    """Yields the indexes of the tokens that were sampled in names and listed values."""
    schemas = {tool.name: tool.schema for tool in turn.tools}
    for index, (token, place) in enumerate(zip(tokens, places, strict=True)):
        if token.source is not TokenSource.DRAWN or token.masked_probability is None:
            continue
        if place.call is None or place.call >= len(reply.calls):
            continue
        if place.part is TracedPart.TOOL_NAME:
            yield index
        elif place.part is TracedPart.ARGUMENTS:
            schema = schemas.get(reply.calls[place.call].name)
            if schema is not None and _is_listed(schema, place.pointer):
                yield index


def _find_rivals(tokens: Sequence[TracedToken], index: int) -> Iterator[Alternative]:
    """Yields the tokens that could have been sampled, and do not spell the text of the turn."""
    written = b""
    for token in tokens[index:]:
        written += token.text.translate(None, _BLANKS)
        if len(written) > max((len(rival.text) for rival in tokens[index].rivals), default=0):
            break
    seen: list[bytes] = [written]
    for rival in tokens[index].rivals:
        text = rival.text.translate(None, _BLANKS)
        if not text or not rival.probability:
            continue
        if not any(text.startswith(other) or other.startswith(text) for other in seen):
            seen.append(text)
            yield rival


def _is_listed(schema: Schema, pointer: str) -> bool:
    """Returns True for the place of a value of finitely many, or of a name; not of a text or
    number."""
    nodes: list[Node] = [schema.node]
    for key in split_pointer(pointer):
        nodes = [inner for node in nodes for inner in _enter(node, key, schema)]
    flat = [found for node in nodes for found in flatten(node, schema.definitions)]
    return bool(flat) and not any(isinstance(one, AnyValue | String | Number) for one in flat)


def _enter(node: Node, key: str, schema: Schema) -> Iterator[Node]:
    """Yields what a value may be inside of another."""
    for branch in flatten(node, schema.definitions):
        inner = _find_member(branch, key)
        if inner is not None:
            yield inner


def _find_member(branch: Flat, key: str) -> Node | None:
    match branch:
        case Object():
            member = branch.find(key)
            return None if member is None else member.node
        case Array() if key.isdecimal():
            return branch.find(int(key))
        case _:
            return None
