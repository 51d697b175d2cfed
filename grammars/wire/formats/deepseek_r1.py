"""DeepSeek R1: JSON in a fence, between tags.

Read from the template of DeepSeek-R1-Distill-Qwen.
"""

from grammars.wire.format import Format, JsonArguments, Literal, Marker, Name, Reasoning

DEEPSEEK_R1 = Format(
    name="deepseek_r1",
    opening=(Marker("<｜tool▁calls▁begin｜>"),),
    call=(
        Marker("<｜tool▁call▁begin｜>"),
        Literal("function"),
        Marker("<｜tool▁sep｜>"),
        Name(),
        Literal("\n```json\n"),
        JsonArguments(),
        Literal("\n```"),
        Marker("<｜tool▁call▁end｜>"),
    ),
    closing=(Marker("<｜tool▁calls▁end｜>"),),
    reasoning=Reasoning(Marker("<think>"), Marker("</think>"), "\n", "\n", "\n"),
    between="\n",
    ends=("<｜end▁of▁sentence｜>",),
)
