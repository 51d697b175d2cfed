"""MiniMax-M3: every tag after one token, objects and lists as tags in tags.

Read from the template of MiniMax-M3. Members that are null are left out there.
"""

from grammars.wire.format import Format, Literal, Marker, Name, NestedArguments, Reasoning

MINIMAX_M3 = Format(
    name="minimax_m3",
    opening=(Marker("]<]minimax[>[<tool_call>"), Literal("\n")),
    call=(
        Literal(']<]minimax[>[<invoke name="'),
        Name(),
        Literal('">'),
        NestedArguments("]<]minimax[>["),
        Literal("]<]minimax[>[</invoke>\n"),
    ),
    closing=(Marker("]<]minimax[>[</tool_call>"),),
    reasoning=Reasoning(Marker("<mm:think>"), Marker("</mm:think>"), starts_closed=True),
    ends=("[e~[",),
)
