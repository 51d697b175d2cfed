"""Harmony, gpt-oss: every part of a turn is a message with a header; a call names its recipient.

Read from the template of gpt-oss 120b; the template writes one call in a turn. Its models write
headers in many ways: the recipient in front of the channel or after it, in any channel, the kind
of content with or without `<|constrain|>`, a part twice, or white space around the parts.
"""

from grammars.wire.format import Content, Format, JsonArguments, Literal, Marker, Name, Reasoning
from grammars.wire.variants import MessageHeaders

HARMONY = Format(
    name="harmony",
    call=(
        Marker(" to=functions."),
        Name(),
        Marker("<|channel|>"),
        Literal("commentary json"),
        Marker("<|message|>"),
        JsonArguments(),
    ),
    reasoning=Reasoning(
        Marker("<|channel|>analysis<|message|>"),
        Marker("<|end|><|start|>assistant"),
        next_opener="<|start|>assistant",
    ),
    contents=(
        Content("<|channel|>final<|message|>", calls=False),
        Content("<|channel|>commentary<|message|>", "<|end|><|start|>assistant"),
    ),
    ends=("<|call|>", "<|return|>", "<|end|>"),
    single=True,
    headers=MessageHeaders(
        start="<|start|>",
        role="assistant",
        channel="<|channel|>",
        recipient="to=",
        kind="<|constrain|>",
        kinds=("json", "code"),
        body="<|message|>",
        end="<|end|>",
        thoughts=("analysis",),
        tools="functions.",
        others=("user", "system", "developer"),
    ),
)
