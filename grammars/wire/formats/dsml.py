"""DeepSeek V3.2: XML whose tags tell whether a value is text or JSON.

Read from the template of DeepSeek V3.2.
"""

from grammars.wire.format import Format, Literal, Marker, Name, Reasoning, TaggedArguments

DSML = Format(
    name="dsml",
    opening=(Marker("<｜DSML｜function_calls>"), Literal("\n")),
    call=(
        Literal('<｜DSML｜invoke name="'),
        Name(),
        Literal('">\n'),
        TaggedArguments(
            open='<｜DSML｜parameter name="',
            after_key='" string="',
            kinds=(("string", "true"), ("", "false")),
            after_kind='">',
            close="</｜DSML｜parameter>\n",
            end="</｜DSML｜invoke>",
        ),
    ),
    closing=(Literal("\n"), Marker("</｜DSML｜function_calls>")),
    reasoning=Reasoning(Marker("<think>"), Marker("</think>")),
    before="\n\n",
    between="\n",
    ends=("<｜end▁of▁sentence｜>",),
)
