"""Seed-OSS XML: the tags of Qwen3-Coder, values without line breaks around them, Python's words.

Read from the template of Seed-OSS 36B.
"""

from grammars.wire.format import PYTHON, Format, Literal, Marker, Name, Reasoning, TaggedArguments

SEED_OSS = Format(
    name="seed_oss",
    call=(
        Marker("<seed:tool_call>"),
        Literal("\n<function="),
        Name(),
        Literal(">\n"),
        TaggedArguments(
            open="<parameter=",
            after_key=">",
            close="</parameter>\n",
            end="</function>",
            true=PYTHON.true,
            false=PYTHON.false,
            null=PYTHON.null,
            style=PYTHON,
        ),
        Literal("\n"),
        Marker("</seed:tool_call>"),
    ),
    reasoning=Reasoning(Marker("<seed:think>"), Marker("</seed:think>"), after="\n"),
    before="\n",
    between="\n",
    ends=("<seed:eos>",),
)
