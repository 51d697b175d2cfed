"""Best of n: a turn is branched where names and listed values of its calls part.

A model that is asked for the likeliest token each time need not find the likeliest call: `get_` may
be likelier than `find_`, and each tool that begins with `get_` less likely than `find_user`. So the
turn is written once; then its likeliest branches go on from there, all in one batch: each begins
with the tokens of the turn up to a choice, and with another token there. Free texts and numbers are
no such choices: there, another token is seldom another meaning. The turn with the largest legal
likelihood is the reply: the product of the probabilities, among what the mask allowed, of its
tokens in names and listed values.
"""

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Protocol

from constrained.compile.compiled_turn import CompiledTurn
from constrained.decode.token_trace import Alternative, TokenSource, TracedToken
from constrained.errors import RequestError
from constrained.model.call_options import TRACED, CallOptions
from constrained.remote.remote_engine import RemoteEngine
from constrained.reply import Candidate, Reply, add_trace
from constrained.schedule.worker import gather, resolve
from constrained.trace.places import TokenPlace, TracedPart
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

_BLANKS = b" \t\r\n"


class Launch(Protocol):
    """Generates a turn."""

    def __call__(self, *, options: CallOptions) -> Future[Reply]: ...


@dataclass(frozen=True)
class Branch:
    """Another turn that begins as one that is written.

    Args:
        tokens: its first ones, traced.
        score: the logarithm of their legal likelihood.
    """

    tokens: tuple[TracedToken, ...]
    score: float


def check_best_of(options: CallOptions, engine: object, *, is_stream: bool) -> None:
    """Refuses what one turn of several cannot have.

    Raises:
        RequestError: for a stream, for log probabilities, and of a remote engine.
    """
    problem, hint = None, "Leave it out"
    if is_stream:
        problem, hint = "a stream has one turn", "Use call or acall"
    elif options.decode.logprobs is not None:
        problem = "logprobs are those of one turn"
    elif isinstance(engine, RemoteEngine):
        problem = "a remote engine does not tell how likely its tokens are"
    if problem is not None:
        raise RequestError(problem, where="/best_of", hint=hint)


def find_branches(reply: Reply, turn: CompiledTurn, most: int) -> list[Branch]:
    """The likeliest branches of a traced turn, best first.

    Args:
        reply: the turn, with its trace.
        turn: what it was compiled from.
        most: branches.
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
            begun = (*tokens[:index], another)
            branches.append(Branch(begun, score + math.log(rival.probability)))
        score += _score(token)
    branches.sort(key=lambda branch: -branch.score)
    return branches[:most]


def generate_best(launch: Launch, turn: CompiledTurn, options: CallOptions) -> Future[Reply]:
    """Generates a turn and its branches, and chooses.

    Args:
        launch: generates the turn once.
        turn: that is generated.
        options: of the call.
    """
    decode = replace(options.decode, trace=TRACED)
    outer = Future[Reply]()
    outer.set_running_or_notify_cancel()

    def branch(first: Reply) -> None:
        branches = find_branches(first, turn, options.best_of - 1)
        begun: list[Future[Reply]] = []
        for one in branches:
            written = tuple(token.token for token in one.tokens)
            begun.append(launch(options=replace(options, decode=replace(decode, written=written))))

        def choose(replies: Sequence[Reply]) -> None:
            joined = [join(one, reply) for one, reply in zip(branches, replies, strict=True)]
            chosen = choose_best([first, *joined], turn)
            if options.decode.trace is None:
                chosen = replace(chosen, trace=None)
            outer.set_result(chosen)

        gathered = gather(begun)
        gathered.add_done_callback(lambda done: resolve(outer, lambda: choose(done.result())))

    first = launch(options=replace(options, decode=decode))
    first.add_done_callback(lambda done: resolve(outer, lambda: branch(done.result())))
    return outer


def choose_best(replies: Sequence[Reply], turn: CompiledTurn) -> Reply:
    """The likeliest of several replies; the first of those that are equally likely.

    Its usage counts the tokens of all.
    """
    scored = [(score(reply, turn), reply) for reply in replies if not _is_cut(reply)]
    scored = scored or [(score(reply, turn), reply) for reply in replies]
    scored.sort(key=lambda pair: -pair[0])
    chosen = scored[0][1]
    usage = chosen.usage
    for reply in replies:
        if reply is not chosen:
            usage = usage.add_discarded(reply.usage)
    candidates = tuple(Candidate(reply.calls, math.exp(value)) for value, reply in scored)
    return replace(chosen, usage=usage, candidates=candidates)


def _is_cut(reply: Reply) -> bool:
    return reply.finish_reason == "length" or any(call.truncated for call in reply.calls)


def join(branch: Branch, reply: Reply) -> Reply:
    """The reply of a branch, whose first tokens were traced when the first turn was written."""
    assert reply.trace is not None
    count = len(branch.tokens)
    tokens: list[TracedToken] = []
    for known, written in zip(branch.tokens, reply.trace.tokens[:count], strict=True):
        tokens.append(replace(known, is_discarded=written.is_discarded))
    tokens += reply.trace.tokens[count:]
    return add_trace(reply, replace(reply.trace, tokens=tuple(tokens)))


def score(reply: Reply, turn: CompiledTurn) -> float:
    """The logarithm of the legal likelihood of a traced turn."""
    tokens, places = _list_live(reply)
    return sum(_score(tokens[index]) for index in _find_choices(tokens, places, reply, turn))


def _score(token: TracedToken) -> float:
    return math.log(max(token.masked_probability or 0.0, 1e-9))


def _list_live(reply: Reply) -> tuple[list[TracedToken], list[TokenPlace]]:
    """The tokens that the turn has, and their places."""
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
    """The indexes of the tokens that were drawn in names and listed values."""
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
    """The tokens that could have been drawn, and spell something else than what is there."""
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
    """True for the place of a value of finitely many, or of a name; not of a text or number."""
    nodes: list[Node] = [schema.node]
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        nodes = [inner for node in nodes for inner in _enter(node, key, schema)]
    flat = [found for node in nodes for found in flatten(node, schema.definitions)]
    return bool(flat) and not any(isinstance(one, AnyValue | String | Number) for one in flat)


def _enter(node: Node, key: str, schema: Schema) -> Iterator[Node]:
    """What a value may be inside of another."""
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
