"""Command R7B: a JSON list of numbered calls; plain answers between tags, too.

Read from the template of Command R7B for tool use.
"""

from grammars.wire.format import CallIndex, Content, Format, JsonCall, Literal, Marker, Reasoning

COMMAND_R7B = Format(
    name="command_r7b",
    opening=(Marker("<|START_ACTION|>"), Literal("[\n    ")),
    call=(
        JsonCall("tool_name", "parameters", id=CallIndex(), id_key="tool_call_id", id_first=True),
    ),
    closing=(Literal("\n]"), Marker("<|END_ACTION|>")),
    reasoning=Reasoning(Marker("<|START_THINKING|>"), Marker("<|END_THINKING|>")),
    contents=(Content("<|START_RESPONSE|>", "<|END_RESPONSE|>", calls=False),),
    between=",\n    ",
    ends=("<|END_OF_TURN_TOKEN|>",),
)
