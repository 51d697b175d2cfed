"""Command R+: an indented JSON list in a fence.

Read from the template of Command R+ for tool use.
"""

from grammars.wire.format import Format, JsonCall, JsonStyle, Literal, Marker

COMMAND_R = Format(
    name="command_r",
    opening=(Marker("Action:"), Literal("\n```json\n[\n    ")),
    call=(JsonCall("tool_name", "parameters", JsonStyle(indent=4, level=1)),),
    closing=(Literal("\n]```"),),
    between=",\n    ",
    ends=("<|END_OF_TURN_TOKEN|>",),
)
