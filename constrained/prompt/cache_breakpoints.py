"""Where in a prompt the first messages end, so that what is computed of them is kept longest."""

from collections.abc import Sequence

from constrained.errors import TemplateError
from constrained.prompt.prompt_reuse import Messages, Write
from constrained.template.special_tokens import Prompt
from constrained.vocabulary.vocabulary import Vocabulary
from grammars.wire.format import count_common

MOST = 4  # boundaries of one prompt, beside that of the tools and system messages


def find_boundaries(
    breakpoints: Sequence[int],
    messages: Messages,
    prompt: Prompt,
    tokens: Sequence[int],
    rest: int | None,
    write: Write,
    vocabulary: Vocabulary,
) -> set[int]:
    """How many tokens of a prompt its first messages have; of the last breakpoints, if there are
    many. A template that refuses a part of the conversation has no such boundary.

    Args:
        breakpoints: numbers of first messages.
        messages: the conversation, in normal form.
        prompt: what the template makes of it.
        tokens: of the prompt.
        rest: how many of them are not taken over from earlier turns; None: none is.
        write: the prompt of other messages, without what invites the model to speak.
        vocabulary: of the tokens.
    """
    found = set[int]()
    for count in sorted({*breakpoints} - {0})[-MOST:]:
        try:
            part = write(messages[:count]).text
        except TemplateError:
            continue
        common = prompt.text[: count_common(part, prompt.text)]
        place = _count_ahead(tokens, common, vocabulary)
        if place is None and rest is not None:
            behind = prompt.text[len(common) :]
            place = _count_back(tokens[len(tokens) - rest :], behind, vocabulary)
            place = None if place is None else len(tokens) - rest + place
        if place:
            found.add(place)
    return found


def count_closed(prompt: str, closed: str, tokens: Sequence[int], vocabulary: Vocabulary) -> int:
    """How many tokens a prompt has in front of what invites the model to speak; 0: that cannot be
    told.

    Args:
        prompt: its text.
        closed: the text without what invites the model.
        tokens: of the prompt.
        vocabulary: of the tokens.
    """
    return _count_back(tokens, prompt[count_common(closed, prompt) :], vocabulary) or 0


def _count_ahead(tokens: Sequence[int], text: str, vocabulary: Vocabulary) -> int | None:
    """How many tokens spell the text, or as much of it as is whole tokens; None: others do.

    There may be a BOS in front of it, and spaces that SentencePiece puts before texts.
    """
    rest, at = text.encode(), 0
    for place, token in enumerate(tokens):
        spelled = vocabulary.tokens[token]
        if at == len(rest):
            return place
        if rest.startswith(spelled, at):
            at += len(spelled)
        elif spelled[:1] == b" " and rest.startswith(spelled[1:], at):
            at += len(spelled) - 1
        elif place or token != vocabulary.bos:
            return place if spelled.removeprefix(b" ").startswith(rest[at:]) else None
    return len(tokens)


def _count_back(tokens: Sequence[int], text: str, vocabulary: Vocabulary) -> int | None:
    """How many tokens are in front of those that spell the text, from the end; None: it begins
    before them."""
    rest = text.encode()
    end = len(rest)
    for place in range(len(tokens), 0, -1):
        if end == 0:
            return place
        spelled = vocabulary.tokens[tokens[place - 1]]
        if rest.endswith(spelled, 0, end):
            end -= len(spelled)
        elif spelled[:1] == b" " and rest.endswith(spelled[1:], 0, end):
            end -= len(spelled) - 1
        else:
            return place - 1 if spelled.endswith(rest[:end]) else None
    return 0 if end == 0 else None
