"""Mistral's name and JSON arguments: Ministral 3, Devstral Small 2507.

Read from the template of Ministral 3 14B Reasoning. Nothing closes a call but its last brace.
"""

from grammars.wire.format import Format, JsonArguments, Marker, Name, Reasoning

MISTRAL = Format(
    name="mistral",
    call=(Marker("[TOOL_CALLS]"), Name(), Marker("[ARGS]"), JsonArguments()),
    reasoning=Reasoning(Marker("[THINK]"), Marker("[/THINK]")),
    ends=("</s>",),
)

RANK = 3
