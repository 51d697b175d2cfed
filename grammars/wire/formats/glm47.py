"""GLM 4.7, Spark 2.5, Laguna S: keys and values between tags, without line breaks.

Read from the template of GLM 4.7 Flash. A turn ends where the next one begins.
"""

from grammars.wire.format import Format, Marker, Name, Reasoning, TaggedArguments

GLM47 = Format(
    name="glm47",
    call=(
        Marker("<tool_call>"),
        Name(),
        TaggedArguments(
            open="<arg_key>",
            after_key="</arg_key><arg_value>",
            close="</arg_value>",
            end="</tool_call>",
        ),
    ),
    reasoning=Reasoning(Marker("<think>"), Marker("</think>")),
    ends=("<|user|>", "<|observation|>"),
)
