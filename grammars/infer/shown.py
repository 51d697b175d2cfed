"""Finds the format of a model whose chat template shows the tools, but writes no calls.

The format on which such a model was trained is recognised by the texts around the tools in its
prompt, and by its special tokens. `SIGNS` of the registry has these texts for each format.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from grammars.errors import DetectError, Error
from grammars.infer.probes import TEXT, USER, ProbedTemplate, Render, make_tool
from grammars.infer.reasoning import find_reasoning
from grammars.infer.turn import find_ends, find_frame
from grammars.schema.nodes import Json
from grammars.wire.format import Fixed, Format, Marker
from grammars.wire.formats import NATIVE, SIGNS

_QUESTION: dict[str, Json] = {"role": "user", "content": USER}
_ANSWER: dict[str, Json] = {"role": "assistant", "content": TEXT}
PROBED_TOOL = "probe_of_a_tool"
"""The name of the tool that prompts are rendered with."""
_TOOL = make_tool(PROBED_TOOL, "Probe", {"probe_key": {"type": "string"}})


@dataclass(frozen=True)
class ShownFormat:
    """A format, and the text of the prompt from which it was recognised.

    Args:
        is_example: the text is an example of a call, from which the format was read.
    """

    format: Format
    sign: str
    is_example: bool = False

    @property
    def reason(self) -> str:
        """The reason for this format, for the user."""
        if self.is_example:
            return f"its prompt shows calls in the form {self.sign!r}"
        return f"{self.sign!r} in its prompt indicates the tool format {self.format.name}"


def find_shown(
    render_chat: Render,
    special_tokens: Collection[str] | None = None,
    *,
    formats: Sequence[Format] = NATIVE,
    signs: Mapping[str, tuple[Fixed, ...]] = SIGNS,
) -> ShownFormat:
    """Returns the known format that a prompt with tools shows, although the template writes no
    calls.

    Args:
        render_chat: renders a conversation.
        special_tokens: the texts of the model's special tokens; None: not known, because there is
            only a template.
        formats: the formats to look for.
        signs: the texts by which they are recognised, by their names.

    Raises:
        DetectError: no format is recognised, the signs do not suffice, or they fit several formats.
    """
    shown, plain = render_tools(render_chat)
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
            found.append(ShownFormat(format, sign.text))
            break
    if len(found) > 1:
        names = " and ".join(each.format.name for each in found)
        raise DetectError(f"the prompt describes more than one tool format: {names}")
    if not found:
        raise DetectError("; ".join(doubts) or "the prompt describes no known tool format")
    (only,) = found
    return replace(only, format=adapt(only.format, render_chat))


def render_tools(render_chat: Render) -> tuple[str, str]:
    """Returns the prompts for a question with a tool and without."""
    return _render(render_chat, [_QUESTION], [_TOOL]), _render(render_chat, [_QUESTION])


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


def adapt(known: Format, render_chat: Render) -> Format:
    """Returns the format with what the template itself writes of a turn: the reasoning block, the
    texts around every answer, and the end of turn."""
    block, own = find_reasoning(render_chat), known.reasoning
    if block and own and (block.opener, block.closer) == (own.opener, own.closer):
        block = own  # a template that only drops the block does not show its white space
    head, tail = find_frame(ProbedTemplate(render_chat, block))
    after = _render(render_chat, [_QUESTION, _ANSWER]).partition(TEXT)[2]
    after = after.partition(tail)[2] if tail else after
    ends = tuple(dict.fromkeys([*find_ends(after), *known.ends]))
    return replace(known, reasoning=block, head=head, tail=tail, ends=ends)


def _render(
    render_chat: Render,
    messages: Sequence[Mapping[str, Json]],
    tools: Sequence[Mapping[str, Json]] | None = None,
) -> str:
    """Returns the prompt for these messages; "" if the template refuses them."""
    is_asked = messages[-1]["role"] != "assistant"
    try:
        return render_chat(messages, tools, add_generation_prompt=is_asked)
    except Error:
        return ""
