"""Completions: the types of a reply and of the chunks of a stream, for the OpenAPI document."""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from server.dialects.chat.reply_types import ChatHead, ChatUsage, FinishReason, PromptProgress
from server.turns.progress import ReplyTimings
from server.turns.reply_notes import ReplyNotes


class LegacyLogprobs(TypedDict):
    """The log probabilities of tokens, as lists of the same length."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]
    """In characters of the text."""


class CompletionChoice(TypedDict):
    """One of the texts, or a part of it."""

    index: int
    text: str
    logprobs: LegacyLogprobs | None
    finish_reason: FinishReason | None
    """null, except in the last part."""


class TextCompletion(ChatHead):
    """A whole reply, or a part of a stream; the part with the usage has no choices."""

    object: Literal["text_completion"]
    choices: list[CompletionChoice]
    usage: NotRequired[ChatUsage]
    timings: NotRequired[ReplyTimings]
    prompt_progress: NotRequired[PromptProgress]
    constrained: NotRequired[ReplyNotes]
