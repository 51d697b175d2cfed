"""DeepSeek V4: as V3.2, with another outer tag.

Read from the template of DeepSeek V4.
"""

from grammars.wire import Format, Literal, Marker, Name, Reasoning, TaggedArguments

DSML_V4 = Format(
    name="dsml_v4",
    opening=(Marker("<｜DSML｜tool_calls>"), Literal("\n")),
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
            empty="\n</｜DSML｜invoke>",
        ),
    ),
    closing=(Literal("\n"), Marker("</｜DSML｜tool_calls>")),
    reasoning=Reasoning(Marker("<think>"), Marker("</think>")),
    before="\n\n",
    between="\n",
    ends=("<｜end▁of▁sentence｜>",),
)
