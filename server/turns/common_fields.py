"""Fields of all dialects that say who shares what was computed; vLLM's and llama-server's names."""

from pydantic import BaseModel, ConfigDict, Field


class CacheFields(BaseModel):
    """The scope of the caches."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    cache_salt: str | None = Field(None, min_length=1)
    """Requests of the same salt share what was computed of their prompts, also under several API
    keys; nobody else can tell from times or counts what was asked. Without it, those of one key
    share."""
    cache_prompt: bool | None = None
    """false: nothing of the prompt is taken from a cache (`cached_tokens` is 0), and nothing of it
    is kept for later requests."""
