"""The record of a reply, for the log, the spans and the metrics of the server."""

from collections.abc import Sequence

from constrained.model.reply import Reply
from grammars.turn import ToolCall
from server.turns.compiled_request import CompiledRequest
from server.turns.request_record import Durations, RequestRecord

MOSTLY = 0.9  # the cached part of a prompt from which on no warning is needed


def make_record(
    compiled: CompiledRequest,
    reply: Reply,
    *,
    compile_seconds: float,
    elapsed_seconds: float,
    request_id: str,
) -> RequestRecord:
    """Makes the record of a reply.

    Args:
        compiled: the request.
        reply: its reply, or an empty one if the turn was cancelled or has failed.
        compile_seconds: how long it took to compile the request.
        elapsed_seconds: from the end of compiling to the end of the reply.
        request_id: as in the header `x-request-id`.
    """
    usage, timings, turn = reply.usage, reply.timings, compiled.turn
    decoding = timings.prompt_seconds + timings.generation_seconds
    lost = compiled.request.lost_prefix
    if usage.cached_tokens > MOSTLY * usage.prompt_tokens:
        lost = None  # the change is not in the prompt, or only at its end
    return RequestRecord(
        model=compiled.service.name,
        format=turn.format.name,
        finish=reply.finish_reason,
        prompt_tokens=usage.prompt_tokens,
        cached_tokens=usage.cached_tokens,
        completion_tokens=usage.completion_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        discarded_tokens=usage.discarded_tokens,
        drafted_tokens=usage.drafted_tokens,
        accepted_tokens=usage.accepted_tokens,
        forward_passes=usage.forward_passes,
        durations=Durations(
            compile=compile_seconds,
            queue=max(0.0, elapsed_seconds - decoding),
            prefill=timings.prompt_seconds,
            generation=timings.generation_seconds,
        ),
        tools=len(turn.tools),
        calls=_judge_calls(reply.calls),
        envelopes=tuple(kind.value for kind in reply.envelopes),
        prompt_hash=compiled.head_hash or "",
        grammar_hash=compiled.grammar_hash or "",
        lost_prefix="" if lost is None else lost.part.value,
        repeated_calls=len(compiled.request.repeated_calls),
        request_id=request_id,
    )


def _judge_calls(calls: Sequence[ToolCall]) -> tuple[tuple[str, str], ...]:
    """Returns for each call its tool, and whether it is valid, unfit or truncated."""
    judged = list[tuple[str, str]]()
    for call in calls:
        outcome = "valid"
        if call.truncated:
            outcome = "truncated"
        elif not call.valid:
            outcome = "unfit"
        judged.append((call.name, outcome))
    return tuple(judged)
