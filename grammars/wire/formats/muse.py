"""Muse: every part of a turn is a message to a recipient; the call itself is XML.

Read from the template of Muse Glimmer, which drops content beside a call; models may write it.
"""

from grammars.wire.format import Content, Format, Literal, Marker, Name, Reasoning, TaggedArguments

MUSE = Format(
    name="muse",
    call=(
        Marker(" to="),
        Name(),
        Marker("<|message|>"),
        Marker("<atem:function_calls>"),
        Literal('\n<atem:invoke name="'),
        Name(),
        Literal('">\n'),
        TaggedArguments(
            open='<atem:parameter name="',
            after_key='">',
            close="</atem:parameter>\n",
            end="</atem:invoke>",
        ),
        Literal("\n"),
        Marker("</atem:function_calls>"),
    ),
    reasoning=Reasoning(
        Marker(" to=self<|message|>"),
        Marker("<|eom|><|start|>assistant"),
        next_opener="<|start|>assistant",
    ),
    contents=(Content(" to=user<|message|>"),),
    before="<|eom|><|start|>assistant",
    between="<|eom|><|start|>assistant",
    ends=("<|eot|>",),
)
