"""The record of a reply that is complete."""

from collections.abc import Sequence

from constrained.reply import Reply
from grammars.turn import ToolCall
from server.observe.request_record import Durations, RequestRecord
from server.turns.compiled_request import CompiledRequest


def make_record(
    compiled: CompiledRequest, reply: Reply, *, compile_seconds: float, elapsed_seconds: float
) -> RequestRecord:
    """The record of a reply.

    Args:
        compiled: the request.
        compile_seconds: that it took to compile it.
        elapsed_seconds: from when it was compiled until the reply was complete.
    """
    usage, timings, turn = reply.usage, reply.timings, compiled.turn
    decoding = timings.prompt_seconds + timings.generation_seconds
    lost = compiled.request.lost_prefix
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
        calls=_judge(reply.calls),
        prompt_hash=compiled.head_hash or "",
        grammar_hash=compiled.grammar_hash or "",
        lost_prefix="" if lost is None else lost.part.value,
        repeated_calls=len(compiled.request.repeated_calls),
    )


def _judge(calls: Sequence[ToolCall]) -> tuple[tuple[str, str], ...]:
    judged = list[tuple[str, str]]()
    for call in calls:
        outcome = "valid"
        if call.truncated:
            outcome = "truncated"
        elif not call.valid:
            outcome = "unfit"
        judged.append((call.name, outcome))
    return tuple(judged)
