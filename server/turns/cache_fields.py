"""Fields of all dialects that say who shares what was computed; vLLM's and llama-server's names."""

from pydantic import BaseModel, ConfigDict, Field

_SALT = (
    "Requests of the same salt share what was computed of their prompts, also under several API "
    "keys; nobody else can tell from times or counts what was asked. Without it, those of one key "
    "share."
)
_PROMPT = (
    "false: nothing of the prompt is taken from a cache (`cached_tokens` is 0), and nothing of it "
    "is kept for later requests."
)


class CacheFields(BaseModel):
    """The scope of the caches."""

    model_config = ConfigDict(extra="allow")

    cache_salt: str | None = Field(None, min_length=1, description=_SALT)
    cache_prompt: bool | None = Field(None, description=_PROMPT)
