"""Nemotron Nano v2: all calls in one JSON list between tags.

Read from the template of Nemotron Nano v2.
"""

from grammars.wire.format import Format, JsonCall, Literal, Marker, Reasoning

NEMOTRON_V2 = Format(
    name="nemotron_v2",
    opening=(Marker("<TOOLCALL>"), Literal("[")),
    call=(JsonCall(),),
    closing=(Literal("]"), Marker("</TOOLCALL>")),
    reasoning=Reasoning(Marker("<think>"), Marker("</think>"), "\n", "\n", "\n"),
    between=", ",
    ends=("<SPECIAL_12>",),
)
