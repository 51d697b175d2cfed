"""Apriel: all calls in one JSON list between tags.

Read from the template of Apriel 1.5.
"""

from grammars.wire.format import Format, JsonCall, Literal, Marker

APRIEL = Format(
    name="apriel",
    opening=(Marker("<tool_calls>"), Literal("[")),
    call=(JsonCall(),),
    closing=(Literal("]"), Marker("</tool_calls>")),
    before="\n",
    between=", ",
    ends=("<|end|>",),
)
