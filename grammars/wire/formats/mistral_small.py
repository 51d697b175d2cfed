"""Mistral Small 3.2: name, id and JSON.

Read from the template of Mistral Small 3.2 24B.
"""

from grammars.wire.format import CallId, Format, JsonArguments, Marker, Name

MISTRAL_SMALL = Format(
    name="mistral_small",
    call=(
        Marker("[TOOL_CALLS]"),
        Name(),
        Marker("[CALL_ID]"),
        CallId(),
        Marker("[ARGS]"),
        JsonArguments(),
    ),
    ends=("</s>",),
)
