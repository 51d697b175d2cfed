"""GLM 4.5 and 4.6, Laguna XS: keys and values between tags, a line each.

Read from the template of GLM 4.6. A turn ends where the next one begins.
"""

from grammars.wire.format import Format, Literal, Marker, Name, Reasoning, TaggedArguments

GLM45 = Format(
    name="glm45",
    call=(
        Marker("<tool_call>"),
        Name(),
        Literal("\n"),
        TaggedArguments(
            open="<arg_key>",
            after_key="</arg_key>\n<arg_value>",
            close="</arg_value>\n",
            end="</tool_call>",
        ),
    ),
    reasoning=Reasoning(Marker("<think>"), Marker("</think>"), after="\n"),
    before="\n",
    between="\n",
    ends=("<|user|>", "<|observation|>"),
)
