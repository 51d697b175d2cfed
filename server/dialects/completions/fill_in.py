"""Prompts for the text between a prefix and a suffix (fill-in-the-middle)."""

from collections.abc import Sequence

from constrained.vocabulary.vocabulary import FillInTokens, Vocabulary
from server.errors import HttpError


def write_fill_in_prompts(
    prompts: Sequence[str | Sequence[int]], suffix: str, vocabulary: Vocabulary
) -> list[list[int]]:
    """Writes prompts for the text between each of these prefixes and the suffix. Names of special
    tokens in the texts are text.

    Args:
        prompts: the prefixes, each a text or token ids.
        suffix: the text after the insertion; the request has it as `/suffix`.
        vocabulary: the model's vocabulary.

    Raises:
        HttpError: the model has no tokens for such prompts, or a text has a lone surrogate.
    """
    special = vocabulary.fill_in
    if special is None:
        message = (
            "inserting text is not supported by this model: it has no tokens for prefix and "
            "suffix. Leave the suffix out, or serve a model that was trained for it"
        )
        raise HttpError(400, message, "unsupported_field", where="/suffix")
    start = _list_bos(vocabulary)
    tail = encode_text(suffix, vocabulary, "/suffix")
    written = list[list[int]]()
    for prompt in prompts:
        is_text = isinstance(prompt, str)
        prefix = encode_text(prompt, vocabulary, "/prompt") if is_text else prompt
        written.append(start + join_fill_in(special, prefix, tail))
    return written


def write_plain_prompt(text: str, vocabulary: Vocabulary) -> list[int]:
    """Writes the prompt for what follows a text in which names of special tokens are text.

    Raises:
        HttpError: the text has a lone surrogate; the request has it as `/prompt`.
    """
    return [*_list_bos(vocabulary), *encode_text(text, vocabulary, "/prompt")]


def _list_bos(vocabulary: Vocabulary) -> list[int]:
    return [] if vocabulary.bos is None else [vocabulary.bos]


def join_fill_in(special: FillInTokens, prefix: Sequence[int], suffix: Sequence[int]) -> list[int]:
    """Joins the tokens of a prefix and a suffix to a prompt for the text between them."""
    tokens = [special.prefix]
    tokens.extend(prefix)
    tokens.append(special.suffix)
    tokens.extend(suffix)
    tokens.append(special.middle)
    return tokens


def encode_text(text: str, vocabulary: Vocabulary, where: str) -> Sequence[int]:
    """Returns the tokens of a text of a request; names of special tokens in it are text.

    Raises:
        HttpError: the text has a lone surrogate; says where.
    """
    try:
        return vocabulary.encode(text)
    except UnicodeEncodeError as error:
        message = "the text has a lone surrogate"
        raise HttpError(400, message, "invalid_value", where=where) from error
