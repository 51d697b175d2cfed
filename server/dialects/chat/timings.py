"""The times of a reply, in llama-server's form: `timings`."""

from constrained.model.reply import Reply
from grammars.schema.json_values import JsonObject


def show_timings(reply: Reply) -> JsonObject:
    """Returns llama-server's `timings` of a whole reply, in milliseconds."""
    usage, timings = reply.usage, reply.timings
    computed = usage.prompt_tokens - usage.cached_tokens
    completion = usage.completion_tokens
    prompt_ms = timings.prompt_seconds * 1e3
    predicted_ms = timings.generation_seconds * 1e3
    return {
        "cache_n": usage.cached_tokens,
        "prompt_n": computed,
        "prompt_ms": prompt_ms,
        "prompt_per_token_ms": prompt_ms / max(1, computed),
        "prompt_per_second": computed / max(1e-9, timings.prompt_seconds),
        "predicted_n": completion,
        "predicted_ms": predicted_ms,
        "predicted_per_token_ms": predicted_ms / max(1, completion),
        "predicted_per_second": completion / max(1e-9, timings.generation_seconds),
    }
