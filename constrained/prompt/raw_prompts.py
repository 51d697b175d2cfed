"""Prompts that no template writes: text or tokens as they are, and text that follows."""

from collections.abc import Sequence

from constrained.errors import RequestError, check_count
from constrained.job import Composed
from constrained.prompt.encoding import check_text, encode_prompt
from constrained.template.special_tokens import Prompt
from constrained.vocabulary.vocabulary import Vocabulary
from grammars.turn import State
from grammars.wire.format import Format, JsonCall, Marker

_WHERE = "/prompt"
TEXT = Format(name="text", call=(Marker("<tool_call>"), JsonCall(), Marker("</tool_call>")))
"""Content alone, as it is written. Every format has calls; where no tools are, none is read."""


def compose_raw(
    prompt: str | Sequence[int], vocabulary: Vocabulary, context_length: int | None = None
) -> Composed:
    """A prompt as it stands.

    Args:
        prompt: text, in which the names of special tokens are these, and which gets a BOS in front
            if the model wants it; or token ids, which are taken as they are.
        vocabulary: that of the model.
        context_length: in tokens; None: any.

    Raises:
        RequestError: it is empty, or neither text nor tokens of this model.
        ContextError: it fills the context.
    """
    if isinstance(prompt, str):
        check_text(prompt, vocabulary, context_length)
        text = Prompt((prompt,))
        try:
            tokens = encode_prompt(text, vocabulary)
        except RequestError as e:
            raise RequestError(e.message, where=_WHERE, hint="Replace it") from e
    else:
        tokens = _check_tokens(prompt, len(vocabulary.tokens))
        text = Prompt((vocabulary.text(tokens).decode("utf-8", "replace"),))
    if not tokens:
        raise RequestError("the prompt is empty", where=_WHERE, hint="Give a text, or tokens")
    check_count(len(tokens), context_length)
    return Composed(text, tokens, State())


def _check_tokens(prompt: Sequence[int], count: int) -> tuple[int, ...]:
    if not isinstance(prompt, Sequence) or isinstance(prompt, (bytes, bytearray)):
        hint = "Give a text, or a list of token ids"
        raise RequestError("the prompt is neither text nor tokens", where=_WHERE, hint=hint)
    for place, token in enumerate(prompt):
        if type(token) is not int or not 0 <= token < count:
            message = f"{token!r} is no token: the model has those from 0 to {count - 1}"
            raise RequestError(message, where=f"{_WHERE}/{place}")
    return tuple(prompt)
