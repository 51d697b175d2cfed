"""GigaChat 3: a call is a message with a role of its own.

Read from the template of GigaChat3 10B.
"""

from grammars.wire.format import Format, JsonCall, Literal, Marker

GIGACHAT3 = Format(
    name="gigachat3",
    call=(
        Marker("<|message_sep|>"),
        Literal("\n\nfunction call"),
        Marker("<|role_sep|>"),
        Literal("\n"),
        JsonCall(),
    ),
    ends=("<|message_sep|>",),
    single=True,
)
