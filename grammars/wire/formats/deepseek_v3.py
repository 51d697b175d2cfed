"""DeepSeek V3.1: a name and JSON, between tags.

Read from the template of DeepSeek V3.1.
"""

from grammars.wire.format import Format, JsonArguments, Marker, Name, Reasoning

DEEPSEEK_V3 = Format(
    name="deepseek_v3",
    opening=(Marker("<｜tool▁calls▁begin｜>"),),
    call=(
        Marker("<｜tool▁call▁begin｜>"),
        Name(),
        Marker("<｜tool▁sep｜>"),
        JsonArguments(),
        Marker("<｜tool▁call▁end｜>"),
    ),
    closing=(Marker("<｜tool▁calls▁end｜>"),),
    reasoning=Reasoning(Marker("<think>"), Marker("</think>")),
    ends=("<｜end▁of▁sentence｜>",),
)
