"""How many tokens a turn may have, and whether that is enough."""

from constrained.decode.completion_reserve import Place, Reserve
from constrained.decode.request import Request
from constrained.errors import ContextError, RequestError
from constrained.kv.sequences import Sequences
from constrained.prompt.encoding import check_count


def find_limit(sequences: Sequences, request: Request, spent: int = 0) -> int:
    """How many tokens the turn may have: `max_tokens`, or what the context has left.

    Args:
        spent: how many of `max_tokens` were generated and thrown away.

    Raises:
        RequestError: no prompt, or no tokens.
        ContextError: the prompt fills the context.
    """
    room = sequences.context_length - len(request.prompt)
    if not request.prompt or type(request.max_tokens) is not int or request.max_tokens < 1:
        raise RequestError("a turn needs a prompt and max_tokens of 1 or more", where="/max_tokens")
    check_count(len(request.prompt), sequences.context_length)
    return min(request.max_tokens - spent, room)


def find_reserve(request: Request, limit: int) -> Reserve | None:
    """The reserve of a request, if it has one.

    Raises:
        RequestError, ContextError: the shortest turn that the request allows does not fit.
    """
    if request.matcher is None or request.reserve is None:
        return None
    reserve = request.reserve(limit)
    shortest = reserve.start(Place(request.matcher, 0, *request.prefix.behind(b"")))
    if shortest is None or shortest <= limit:
        return reserve
    message = f"the shortest turn that this request allows has {shortest} tokens"
    if limit == request.max_tokens:
        hint = f"Raise it to {shortest} or more"
        raise RequestError(f"{message}, max_tokens is {limit}", where="/max_tokens", hint=hint)
    hint = "Shorten the conversation or the tools, or raise the context length (-c)"
    raise ContextError(f"{message}, the context has room for {limit}", hint=hint)
