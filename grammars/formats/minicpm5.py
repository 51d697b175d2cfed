"""MiniCPM5: compact XML, Python's words.

Read from the template of MiniCPM5 1B.
"""

from grammars.wire.format import PYTHON, Format, Literal, Marker, Name, Reasoning, TaggedArguments

MINICPM5 = Format(
    name="minicpm5",
    call=(
        Marker('<function name="'),
        Name(),
        Literal('">'),
        TaggedArguments(
            open='<param name="',
            after_key='">',
            close="</param>",
            end="</function>",
            true=PYTHON.true,
            false=PYTHON.false,
            null=PYTHON.null,
            style=PYTHON,
        ),
    ),
    reasoning=Reasoning(Marker("<think>"), Marker("</think>"), "\n", "\n", "\n\n"),
    before="\n",
    between="\n",
    ends=("<|im_end|>",),
)
