"""MiniMax-M1: JSON objects between tags, a line each.

Read from the template of MiniMax-M1.
"""

from grammars.wire.format import Format, JsonCall, Literal, Marker

MINIMAX_M1 = Format(
    name="minimax_m1",
    opening=(Marker("<tool_calls>"), Literal("\n")),
    call=(JsonCall(),),
    closing=(Literal("\n"), Marker("</tool_calls>")),
    before="\n",
    between="\n",
    ends=("<end_of_sentence>",),
)
