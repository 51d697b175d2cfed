"""Drops the oldest messages of a conversation that is too long for the context."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from constrained.errors import ContextError
from server.turns.compiled_request import compile_request
from server.turns.service import Service
from server.turns.turn_request import TurnRequest

REPLY_SHARE = 4
"""Where messages are dropped, the reply gets at most the context divided by this."""
INSTRUCTIONS = ("system", "developer")


async def drop_oldest(service: Service, request: TurnRequest) -> TurnRequest:
    """Returns the request without its oldest messages if the prompt does not fit into the context;
    otherwise, the request itself.

    So many are dropped that there is room for `max_tokens`, but at most for a quarter of the
    context. If not even that fits which is never dropped, the request is too long as before.
    """
    length = service.model.engine.context_length
    if await _measure(service, request) < length:
        return request
    room = length // REPLY_SHARE
    if request.generation.max_tokens is not None:
        room = min(room, request.generation.max_tokens)
    messages = request.job.messages
    parts = [*list_droppable(messages)]
    # Fewer than the least are not enough; so many as the most are, or there are no more.
    least, most = min(1, len(parts)), len(parts)
    while least < most:
        middle = (least + most) // 2
        shorter = _drop(request, parts[:middle])
        if await _measure(service, shorter) <= length - room:
            most = middle
        else:
            least = middle + 1
    return _drop(request, parts[:most])


def list_droppable(messages: Sequence[Mapping[str, Any]]) -> Iterator[range]:
    """Yields the parts of a conversation that may be dropped, the oldest first: single messages,
    and messages with calls together with the results. Instructions, the user's last message and the
    last part are not among them."""
    asked = [number for number, message in enumerate(messages) if message["role"] == "user"]
    kept = asked[-1:]
    start = 0
    for end in range(1, len(messages)):
        if messages[end]["role"] == "tool":
            continue
        if messages[start]["role"] not in INSTRUCTIONS and start not in kept:
            yield range(start, end)
        start = end


def _drop(request: TurnRequest, parts: Sequence[range]) -> TurnRequest:
    dropped = {number for part in parts for number in part}
    if not dropped:
        return request
    messages = [m for number, m in enumerate(request.job.messages) if number not in dropped]
    job = replace(request.job, messages=messages)
    return replace(request, job=job, dropped=len(dropped))


async def _measure(service: Service, request: TurnRequest) -> int:
    """Returns the number of tokens of the prompt; of one that is far too long, the length of the
    context."""
    try:
        compiled = await compile_request(service, request)
    except ContextError:
        return service.model.engine.context_length
    return len(compiled.turn.tokens)
