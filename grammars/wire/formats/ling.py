"""Ling 3: the tags of GLM with line breaks of its own.

Read from the template of Ling 3.0 flash.
"""

from grammars.wire.format import Format, Literal, Marker, Name, Reasoning, TaggedArguments

LING = Format(
    name="ling",
    call=(
        Marker("<tool_call>"),
        Name(),
        Literal("\n"),
        TaggedArguments(
            open="<arg_key>",
            after_key="</arg_key>\n<arg_value>",
            close="</arg_value>",
            end="\n</tool_call>",
        ),
    ),
    reasoning=Reasoning(Marker("<think>"), Marker("</think>")),
    before="\n",
    between="\n",
    ends=("<|role_end|>",),
)
