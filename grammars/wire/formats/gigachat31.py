"""GigaChat 3.1: a tag and JSON.

Read from the template of GigaChat3.1 10B.
"""

from grammars.wire.format import Format, JsonCall, Marker

GIGACHAT31 = Format(
    name="gigachat31",
    call=(Marker("<|function_call|>"), JsonCall()),
    ends=("<|message_sep|>",),
    single=True,
)
