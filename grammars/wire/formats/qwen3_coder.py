"""Qwen3-Coder XML: Qwen3-Coder, Qwen3.5, Nemotron 3 Nano, Step 3.5.

Read from the templates of Qwen3-Coder (calls) and Qwen3.5-4B (reasoning). The templates write
Python's words for true, false and null, and JSON in lists and objects.
"""

from grammars.wire.format import Format, Literal, Marker, Name, Reasoning, TaggedArguments

QWEN3_CODER = Format(
    name="qwen3_coder",
    call=(
        Marker("<tool_call>"),
        Literal("\n<function="),
        Name(),
        Literal(">\n"),
        TaggedArguments(
            open="<parameter=",
            after_key=">\n",
            close="\n</parameter>\n",
            end="</function>",
            true=("True", "true"),
            false=("False", "false"),
            null=("None", "null"),
        ),
        Literal("\n"),
        Marker("</tool_call>"),
    ),
    reasoning=Reasoning(Marker("<think>"), Marker("</think>"), "\n", "\n", "\n\n"),
    before="\n",
    between="\n",
    ends=("<|im_end|>",),
)

RANK = 2
