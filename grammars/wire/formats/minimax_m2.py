"""MiniMax-M2 XML: all calls of a turn between one pair of tags.

Read from the template of MiniMax-M2.
"""

from grammars.wire.format import Format, Literal, Marker, Name, Reasoning, TaggedArguments

MINIMAX_M2 = Format(
    name="minimax_m2",
    opening=(Marker("<minimax:tool_call>"), Literal("\n")),
    call=(
        Literal('<invoke name="'),
        Name(),
        Literal('">\n'),
        TaggedArguments(
            open='<parameter name="', after_key='">', close="</parameter>\n", end="</invoke>"
        ),
    ),
    closing=(Literal("\n"), Marker("</minimax:tool_call>")),
    reasoning=Reasoning(Marker("<think>"), Marker("</think>"), "\n", "\n", "\n\n"),
    before="\n",
    between="\n",
    ends=("[e~[",),
)
