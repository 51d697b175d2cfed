"""Fields that mean the same in OpenAI's Chat Completions, Completions and Responses."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

Json = dict[str, Any]


class StreamOptions(BaseModel):
    """What a stream says beside the reply."""

    model_config = ConfigDict(extra="allow")

    include_usage: bool = False


class StructuredOutputs(BaseModel):
    """vLLM's form of an answer that is not any text."""

    model_config = ConfigDict(extra="allow")

    json_: Any = Field(None, alias="json")
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None


class SamplingFields(BaseModel):
    """How tokens are drawn, and where the text ends."""

    model_config = ConfigDict(extra="allow")

    temperature: float | None = Field(None, ge=0)
    top_p: float | None = Field(None, ge=0, le=1)
    top_k: int | None = Field(None, ge=-1)
    min_p: float | None = Field(None, ge=0, le=1)
    seed: int | None = None
    stop: str | list[str] | None = None
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    frequency_penalty: float | None = Field(None, ge=-2, le=2)


class GenerationFields(SamplingFields):
    """How a reply is generated, and what it has to be."""

    model: str = ""
    response_format: Json | None = None
    json_schema: Json | None = None
    structured_outputs: StructuredOutputs | None = None
    grammar: str | None = None
    regex: str | None = None
    choice: list[str] | None = None
    n_predict: int | None = Field(None, ge=-1)
    n: int | None = Field(None, ge=1)
    logit_bias: dict[str, float] | None = None
    repeat_penalty: float | None = Field(None, gt=0)
    repetition_penalty: float | None = Field(None, gt=0)
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    @property
    def shows_usage(self) -> bool:
        """Does a stream end with the usage?"""
        return self.stream_options is not None and self.stream_options.include_usage
