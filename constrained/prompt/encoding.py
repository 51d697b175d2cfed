"""Prompts as tokens, and whether the context has room for them."""

from constrained.engine.vocabulary.vocabulary import Vocabulary
from constrained.errors import RequestError, make_overflow
from constrained.prompt.template.special_tokens import Prompt


def check_text(text: str, vocabulary: Vocabulary, context_length: int | None) -> None:
    """Raises ContextError if a text is too long to fit into the context. Tokenising millions of
    characters would take minutes. None: there is no limit."""
    if context_length is None:
        return
    size = len(text.encode(errors="surrogatepass"))
    if size > context_length * vocabulary.longest:
        least = size // vocabulary.longest
        problem = f"your messages resulted in {least} tokens or more ({size} bytes)"
        raise make_overflow(context_length, problem, least)


def encode_prompt(prompt: Prompt, vocabulary: Vocabulary) -> tuple[int, ...]:
    """Encodes a prompt; adds BOS if the model needs one. RequestError: a lone surrogate."""
    tokens = encode_pieces(prompt, vocabulary)
    bos = vocabulary.bos
    if bos is not None and tokens[:1] != [bos]:  # most templates write it themselves
        tokens.insert(0, bos)
    return tuple(tokens)


def encode_pieces(prompt: Prompt, vocabulary: Vocabulary, *, inside: bool = False) -> list[int]:
    """Returns the tokens of a prompt, or of a part `inside` of one."""
    tokens: list[int] = []
    try:
        for piece in prompt.pieces:
            tokens += vocabulary.encode_special(piece, inside=inside)
            inside = True  # SentencePiece adds no space before text that continues other text
    except UnicodeEncodeError as e:
        hint = "Replace it in the messages or tools"
        raise RequestError("the prompt has a lone surrogate", hint=hint) from e
    return tokens
