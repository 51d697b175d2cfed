"""Harmony, gpt-oss: every part of a turn is a message with a header; a call names its recipient.

Read from the template of gpt-oss 120b; the template writes one call in a turn. Its models write the
header of a call in many ways: the recipient in front of the channel or behind it, in any channel,
the kind of content with or without `<|constrain|>`, or a part twice.
"""

from grammars.wire.format import Content, Format, JsonArguments, Literal, Marker, Name, Reasoning
from grammars.wire.variants import Handle, OneOf

_RECIPIENT = Handle(("functions.{name}", "{name}"))
_CHANNEL = OneOf(
    ("<|channel|>commentary", "<|channel|>analysis", "<|channel|>final", "<|channel|>", "")
)
_KIND = OneOf((" <|constrain|>json", "<|constrain|>json", " json", " code", "json", ""))
_REST = (_RECIPIENT, _KIND, _CHANNEL, _KIND, Literal("<|message|>"), JsonArguments())

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
        Marker("<|channel|>analysis<|message|>"), Marker("<|end|><|start|>assistant")
    ),
    contents=(
        Content("<|channel|>final<|message|>", calls=False),
        Content("<|channel|>commentary<|message|>", "<|end|><|start|>assistant"),
    ),
    ends=("<|call|>", "<|return|>"),
    single=True,
    variants=(
        (Marker(" to=functions."), *_REST),
        (Marker(" to="), *_REST),
        (Marker("<|channel|>commentary to="), *_REST),
        (Marker("<|channel|>analysis to="), *_REST),
        (Marker("<|channel|>final to="), *_REST),
    ),
)
