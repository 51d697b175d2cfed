"""Kimi K3: tags of several tokens each; an argument states its type.

Read from the template of Kimi-K3.
"""

from grammars.wire.format import (
    CallIndex,
    Content,
    Format,
    Literal,
    Marker,
    Name,
    Reasoning,
    TaggedArguments,
)

KIMI_K3 = Format(
    name="kimi_k3",
    opening=(Marker("<|open|>tools<|sep|>"),),
    call=(
        Marker("<|open|>"),
        Literal('call tool="'),
        Name(),
        Literal('" index="'),
        CallIndex(first=1, id="", anew=True),
        Literal('"'),
        Marker("<|sep|>"),
        TaggedArguments(
            open='<|open|>argument key="',
            after_key='" type="',
            kinds=(
                ("string", "string"),
                ("number", "number"),
                ("boolean", "boolean"),
                ("null", "null"),
                ("array", "array"),
                ("object", "object"),
            ),
            after_kind='"<|sep|>',
            close="<|close|>argument<|sep|>",
            end="<|close|>call<|sep|>",
        ),
    ),
    closing=(Marker("<|close|>tools<|sep|>"),),
    reasoning=Reasoning(Marker("<|open|>think<|sep|>"), Marker("<|close|>think<|sep|>")),
    contents=(Content("<|open|>response<|sep|>", "<|close|>response<|sep|>"),),
    tail="<|close|>message<|sep|>",
    ends=("<|end_of_msg|>",),
)
