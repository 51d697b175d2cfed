"""MiniCPM5: compact XML, Python's words, CDATA around strings that hold XML's own characters.

Read from the template of MiniCPM5 1B.
"""

from grammars.wire.format import (
    PYTHON,
    Format,
    Literal,
    Marker,
    Name,
    Reasoning,
    TaggedArguments,
    TextWrapper,
)

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
            wrapper=TextWrapper("<![CDATA[", "]]>", triggers=("<", "&", "\n")),
        ),
    ),
    reasoning=Reasoning(Marker("<think>"), Marker("</think>"), "\n", "\n", "\n\n"),
    before="\n",
    between="\n",
    ends=("<|im_end|>",),
)
