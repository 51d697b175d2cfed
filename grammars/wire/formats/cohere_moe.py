"""Cohere2 MoE: as Command R7B, with other tags around answers.

Read from the template of Cohere2MoE.
"""

from grammars.wire.format import CallIndex, Content, Format, JsonCall, Literal, Marker, Reasoning

COHERE_MOE = Format(
    name="cohere_moe",
    opening=(Marker("<|START_ACTION|>"), Literal("[\n    ")),
    call=(
        JsonCall("tool_name", "parameters", id=CallIndex(), id_key="tool_call_id", id_first=True),
    ),
    closing=(Literal("\n]"), Marker("<|END_ACTION|>")),
    reasoning=Reasoning(Marker("<|START_THINKING|>"), Marker("<|END_THINKING|>")),
    contents=(Content("<|START_TEXT|>", "<|END_TEXT|>", calls=False),),
    between=",\n    ",
    ends=("<|END_OF_TURN_TOKEN|>",),
)
