"""Kimi K2: calls carry a number that goes on over the conversation.

Read from the template of Kimi-K2-Thinking. Its models spell the id in other ways, too.
"""

from grammars.wire.format import CallIndex, Format, JsonArguments, Literal, Marker, Name, Reasoning
from grammars.wire.variants import Handle

KIMI_K2 = Format(
    name="kimi_k2",
    opening=(Marker("<|tool_calls_section_begin|>"),),
    call=(
        Marker("<|tool_call_begin|>"),
        Literal("functions."),
        Name(),
        Literal(":"),
        CallIndex(id="functions.{name}:{index}"),
        Marker("<|tool_call_argument_begin|>"),
        JsonArguments(),
        Marker("<|tool_call_end|>"),
    ),
    closing=(Marker("<|tool_calls_section_end|>"),),
    reasoning=Reasoning(Marker("<think>"), Marker("</think>")),
    ends=("<|im_end|>",),
    variants=(
        (
            Marker("<|tool_call_begin|>"),
            Handle(
                (
                    "functions.{name}:{index}",
                    "functions_{name}_{index}",
                    "{name}:{index}",
                    "functions.{name}",
                    "{name}",
                ),
                id="functions.{name}:{index}",
            ),
            Marker("<|tool_call_argument_begin|>"),
            JsonArguments(),
            Marker("<|tool_call_end|>"),
        ),
    ),
)
