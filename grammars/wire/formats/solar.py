"""Solar Open: id, name and JSON between tags; each part of a turn has a header.

Read from the template of Solar Open 100B.
"""

from grammars.wire.format import CallId, Content, Format, JsonArguments, Marker, Name, Reasoning

SOLAR = Format(
    name="solar",
    opening=(Marker("<|tool_calls|>"),),
    call=(
        Marker("<|tool_call:begin|>"),
        CallId("[a-zA-Z0-9_-]{1,64}"),
        Marker("<|tool_call:name|>"),
        Name(),
        Marker("<|tool_call:args|>"),
        JsonArguments(),
        Marker("<|tool_call:end|>"),
    ),
    reasoning=Reasoning(
        Marker("<|think|>"),
        Marker("<|end|><|begin|>assistant"),
        next_opener="<|begin|>assistant",
    ),
    contents=(Content("<|content|>", calls=False),),
    ends=("<|calls|>", "<|end|>"),
)
