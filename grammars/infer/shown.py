"""Finds the format of a model whose chat template shows the tools, but writes no calls.

The format on which such a model was trained is recognised by the texts around the tools in its
prompt, and by its special tokens. `SIGNS` of the registry has these texts for each format.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from grammars.infer.detection import Refusal
from grammars.infer.probes import TEXT, ProbedTemplate, show_message
from grammars.infer.turn import find_ends, find_frame
from grammars.turn import Turn
from grammars.wire.format import Fixed, Format, Marker
from grammars.wire.formats import NATIVE, SIGNS


@dataclass(frozen=True)
class ShownFormat:
    """A format that a prompt shows, and the reason for it, for the user."""

    format: Format
    reason: str


def find_shown(
    chat: ProbedTemplate,
    special_tokens: Collection[str] | None = None,
    *,
    formats: Sequence[Format] = NATIVE,
    signs: Mapping[str, tuple[Fixed, ...]] = SIGNS,
) -> ShownFormat | Refusal:
    """Returns the known format that a prompt with tools shows, although the template writes no
    calls; a refusal if none is recognised, the signs do not suffice, or they fit several formats.

    Args:
        chat: the template.
        special_tokens: the texts of the model's special tokens; None: not known, because there is
            only a template.
        formats: the formats to look for.
        signs: the texts by which they are recognised, by their names.
    """
    shown, plain = render_tools(chat)
    found: list[ShownFormat] = []
    doubts: list[str] = []
    for format in formats:
        for sign in signs.get(format.name, ()):
            if sign.text not in shown or sign.text in plain:
                continue
            doubt = _doubt(format, sign, special_tokens)
            if doubt:
                doubts.append(doubt)
                continue
            reason = f"{sign.text!r} in its prompt indicates the tool format {format.name}"
            found.append(ShownFormat(format, reason))
            break
    if len(found) > 1:
        names = " and ".join(each.format.name for each in found)
        return Refusal(f"the prompt describes more than one tool format: {names}")
    if not found:
        return Refusal("; ".join(doubts) or "the prompt describes no known tool format")
    return replace(found[0], format=adapt(found[0].format, chat))


def render_tools(chat: ProbedTemplate) -> tuple[str, str]:
    """Returns the prompts for a question with tools and without."""
    return chat.instruct(), chat.render(with_tools=False, opening=True)


def _doubt(format: Format, sign: Fixed, special_tokens: Collection[str] | None) -> str:
    """Returns why the sign does not prove that the model was trained on the format; "" if it
    does."""
    reason = f"{sign.text!r} in the prompt indicates the tool format {format.name}"
    if special_tokens is None:
        if isinstance(sign, Marker):
            return ""
        return (
            f"{reason}, but the special tokens of the model, which could confirm it, are not known"
        )
    nodes = (sign, *format.opening, *format.call, *format.closing)
    needed = [node.text for node in nodes if isinstance(node, Marker)]
    missing = [text for text in needed if text not in special_tokens]
    if not missing:
        return ""
    return f"{reason}, but the model has no special token {' or '.join(missing)}"


def adapt(known: Format, chat: ProbedTemplate) -> Format:
    """Returns the format with what the template itself writes of a turn: the reasoning block, the
    texts around every answer, and the end of turn."""
    block, own = chat.reasoning, known.reasoning
    if block and own and (block.opener, block.closer) == (own.opener, own.closer):
        block = own  # a template that only drops the block does not show its white space
    answer = show_message(Turn(TEXT))
    head, tail = find_frame(replace(chat, reasoning=block))
    after = chat.render(answer, with_tools=False).partition(TEXT)[2]
    after = after.partition(tail)[2] if tail else after
    ends = tuple(dict.fromkeys([*find_ends(after), *known.ends]))
    return replace(known, reasoning=block, head=head, tail=tail, ends=ends)
