"""The table of the parts of a turn. A rule that is not listed here does not exist for any turn."""

from constrained.decode.drafts.prompt_lookup import PromptLookup
from constrained.decode.parts.ends import LastCall, RepeatedContent, StopTexts
from constrained.decode.parts.foreign_calls import ForeignCalls
from constrained.decode.parts.retry import Retry
from constrained.decode.token_healing import TokenHealing
from constrained.decode.turn import RunningTurn
from constrained.decode.turn_part import TurnPart, TurnParts
from constrained.prompt.job import NO_LIMITS


def make_parts(turn: RunningTurn) -> TurnParts:
    """Makes the parts of a turn that its request needs, in the order in which they steer. The last
    one reacts first: a stop text ends the turn whatever else the text says."""
    given, options = turn.request.turn, turn.request.options
    # If another process samples the tokens, it cannot be steered, and cannot go back.
    is_sampled_here = turn.sampler is not None
    parts: list[TurnPart] = []
    if given.max_content_repetition is not None and not options.ignore_eos:
        parts.append(RepeatedContent(turn, given.max_content_repetition))
    if is_sampled_here and (given.prefill.rest or given.prefill.marker_suffixes):
        parts.append(TokenHealing(given.prefill, turn.vocabulary))
    if is_sampled_here and given.budget is not None:
        parts.append(given.budget)
    if not given.checked_schemas.is_empty or given.call_limits.excluded:
        parts.append(Retry(turn))
    if given.make_endless_values is not None and turn.matcher is not None:
        parts.append(given.make_endless_values())
    if turn.reserve is not None:
        parts.append(turn.reserve)
    if is_sampled_here and options.draft and options.logprobs is None:
        parts.append(PromptLookup(turn.input.prompt, turn.vocabulary))
    if is_sampled_here and given.envelopes is not None:
        parts.append(ForeignCalls(turn, given.envelopes))
    if given.call_limits != NO_LIMITS:
        parts.append(LastCall(turn))
    if options.stops:
        parts.append(StopTexts(turn))
    return TurnParts(parts)
