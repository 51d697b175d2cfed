"""Mistral Nemo: one JSON list, ids of nine characters in it.

Read from the template of Mistral Nemo 2407.
"""

from grammars.wire.format import CallId, Format, JsonCall, Literal, Marker

MISTRAL_NEMO = Format(
    name="mistral_nemo",
    opening=(Marker("[TOOL_CALLS]"), Literal("[")),
    call=(JsonCall(id=CallId()),),
    closing=(Literal("]"),),
    between=", ",
    ends=("</s>",),
)
