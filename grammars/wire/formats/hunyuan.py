"""Hunyuan 3: keys and values between tags, all calls between one more pair.

Read from the template of Hy3.
"""

from grammars.wire.format import Format, Literal, Marker, Name, Reasoning, TaggedArguments

HUNYUAN = Format(
    name="hunyuan",
    opening=(Marker("<tool_calls:opensource>"), Literal("\n")),
    call=(
        Marker("<tool_call:opensource>"),
        Name(),
        Marker("<tool_sep:opensource>"),
        Literal("\n"),
        TaggedArguments(
            open="<arg_key:opensource>",
            after_key="</arg_key:opensource>\n<arg_value:opensource>",
            close="</arg_value:opensource>\n",
            end="</tool_call:opensource>",
        ),
    ),
    closing=(Literal("\n"), Marker("</tool_calls:opensource>")),
    reasoning=Reasoning(Marker("<think:opensource>"), Marker("</think:opensource>")),
    between="\n",
    ends=("<｜hy_eos:opensource｜>",),
)
