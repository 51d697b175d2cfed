"""Hermes JSON: Qwen2.5, Qwen3, QwQ, MiMo-VL, Hermes 2 and 3, Granite 4, Bielik, Reka.

Read from the template of Qwen3-0.6B.
"""

from grammars.wire.format import Format, JsonCall, Literal, Marker, Reasoning

HERMES = Format(
    name="hermes",
    call=(Marker("<tool_call>"), Literal("\n"), JsonCall(), Literal("\n"), Marker("</tool_call>")),
    reasoning=Reasoning(Marker("<think>"), Marker("</think>"), "\n", "\n", "\n\n"),
    before="\n",
    between="\n",
    ends=("<|im_end|>",),
)

RANK = 1
