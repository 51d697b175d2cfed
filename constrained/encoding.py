"""Prompts as tokens."""

from constrained.errors import RequestError
from constrained.quoting import Prompt
from constrained.vocabulary import Vocabulary


def encode_prompt(prompt: Prompt, vocabulary: Vocabulary) -> tuple[int, ...]:
    """The tokens of a prompt, with BOS in front of them if the model wants it.

    Raises:
        RequestError: the text has a lone surrogate.
    """
    tokens = encode_pieces(prompt, vocabulary)
    bos = vocabulary.bos
    if bos is not None and tokens[:1] != [bos]:  # most templates write it themselves
        tokens.insert(0, bos)
    return tuple(tokens)


def encode_pieces(prompt: Prompt, vocabulary: Vocabulary, *, inside: bool = False) -> list[int]:
    """The tokens of a prompt, or of a part `inside` of one; raises as `encode_prompt`."""
    try:
        parts = [
            vocabulary.encode_special(piece, inside=inside or number > 0)
            for number, piece in enumerate(prompt.pieces)
        ]
    except UnicodeEncodeError as e:
        hint = "Replace it in the messages or tools"
        raise RequestError("the prompt has a lone surrogate", hint=hint) from e
    return [token for part in parts for token in part]
