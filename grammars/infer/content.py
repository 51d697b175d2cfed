"""Finds the fixed texts around content, and those that end a turn."""

import json
from dataclasses import dataclass

from grammars.errors import DetectError
from grammars.infer.probes import AGAIN, TEXT, USER, ProbedTemplate, show_message
from grammars.infer.text import common_prefix, common_suffix, find_tag, find_tags
from grammars.turn import Turn

HARD_TEXT = 'PROBE "quoted" \\ <b>\n\n- ü'
"""An answer that a template may spell in another way."""


@dataclass(frozen=True)
class Plain:
    """A turn of content without calls: the text that opens it, and everything after it."""

    opener: str
    tail: str
    escaped: bool = False  # the content is in a JSON string
    ascii: bool = False  # there, characters beyond ASCII are escaped


def find_end(chat: ProbedTemplate, tail: str, *, closer: str = "") -> str:
    """Returns the text that ends a turn; "" if there is none. `closer`: the part of the tail that
    closes the content.

    If there are several tags before a next message, it is the last one that also ends the user's
    messages, or else the last one. (Some templates, such as Phi's, write another tag at the end of
    a conversation.)
    """
    ending = tail.removeprefix(closer)
    tags = find_tags(common_prefix(find_following(chat).removeprefix(closer), ending))
    of_user = find_tags(chat.ask() or "")
    if usual := [tag for tag in tags if tag in of_user]:
        return usual[-1]
    return tags[-1] if tags else "".join(find_ends(ending))


def find_closer(tail: str, opener: str) -> str:
    """Returns the text that closes content: the first of several tags after it, if a text opens the
    content. Else ""."""
    tags = find_tags(tail)
    return tail[: tail.index(tags[0]) + len(tags[0])] if opener and len(tags) > 1 else ""


def find_ends(text: str) -> tuple[str, ...]:
    """Returns the texts that can end a turn: the first tag after its content, or all of that text
    if it has no tag. What follows the tag belongs to the next turn."""
    tag = find_tag(text)
    end = tag[0] if tag else text.strip()
    return (end,) if end else ()


def find_following(chat: ProbedTemplate) -> str:
    """Returns the end of turn that a template writes in front of the next message, without that
    message's header; "" if it is not known."""
    text = chat.ask(show_message(Turn(TEXT)), {"role": "user", "content": AGAIN}) or ""
    after = text.partition(TEXT)[2].partition(AGAIN)[0] if AGAIN in text else ""
    header = chat.render(with_tools=False, opening=True).partition(USER)[0]
    return after.removesuffix(common_suffix(after, header))


def read_content(chat: ProbedTemplate) -> Plain:
    """Returns the texts around the content of a turn without calls; raises a `DetectError` if the
    template does not write content."""
    opener, found, tail = chat.read(Turn(TEXT)).partition(TEXT)
    if not found:
        raise DetectError("the chat template writes no content")
    is_quoted = opener.endswith('"') and tail.startswith('"')
    hard = chat.body(Turn(HARD_TEXT)) if is_quoted else None
    for ascii in (False, True):
        escaped = json.dumps(HARD_TEXT, ensure_ascii=ascii)[1:-1]
        if hard is not None and opener + escaped + tail in hard:
            return Plain(opener, tail, escaped=True, ascii=ascii)
    return Plain(opener, tail)
