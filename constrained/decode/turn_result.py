"""The result of a turn that is over, or has not begun."""

from typing import Any

from constrained.decode.request import Finish, Generation, Request, Usage
from constrained.decode.turn import RunningTurn


def make_generation(turn: RunningTurn) -> Generation:
    """Closes a turn that is over, and returns all of it."""
    assert turn.finish is not None
    turn.close(is_whole=turn.finish is Finish.STOP or turn.ended_at is not None)
    if turn.react():  # to what was read in the last characters
        turn.close(is_whole=True)
    turn.send_progress()  # the last tokens may have had no events
    transcript = turn.transcript
    return Generation(
        tokens=tuple(transcript.tokens),
        text=transcript.data.decode("utf-8", "replace"),
        events=tuple(transcript.events),
        finish=turn.finish,
        usage=_count_usage(turn),
        ended_at=turn.ended_at,
        stopped=transcript.stopped,
        is_ended_by_text=transcript.is_over,
        logprobs=tuple(transcript.logprobs),
        timings=turn.stopwatch.read(),
        trace=() if turn.trace is None else tuple(turn.trace.tokens),
        **_collect_reports(turn),
    )


def make_cancelled(request: Request) -> Generation:
    """Makes the result of a request that is cancelled before it has begun."""
    usage = Usage(len(request.turn.prompt), 0, 0)
    return Generation((), "", (), finish=Finish.CANCELLED, usage=usage)


def _count_usage(turn: RunningTurn) -> Usage:
    given = turn.request.turn.prefill.reasoning_tokens
    return Usage(
        prompt_tokens=len(turn.input.prompt),
        completion_tokens=turn.generated,
        forward_passes=turn.input.passes,
        reasoning_tokens=max(0, turn.transcript.reasoning_tokens - given),
        discarded_tokens=turn.discarded,
        cached_tokens=turn.input.cached,
        drafted_tokens=turn.input.drafted,
        accepted_tokens=turn.input.accepted,
    )


def _collect_reports(turn: RunningTurn) -> dict[str, Any]:
    """Returns what the parts add to fields of the result."""
    fields: dict[str, Any] = {}
    for report in turn.parts.report:
        for field, values in report().items():
            fields[field] = (*fields.get(field, ()), *values)
    return fields
