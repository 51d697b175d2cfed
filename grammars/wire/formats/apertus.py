"""Apertus: a JSON list of objects whose only key is the name.

Read from the template of Apertus 8B.
"""

from grammars.wire.format import Format, JsonArguments, Literal, Marker, Name, Reasoning

APERTUS = Format(
    name="apertus",
    opening=(Marker("<|tools_prefix|>"), Literal("[")),
    call=(Literal('{"'), Name(), Literal('": '), JsonArguments(), Literal("}")),
    closing=(Literal("]"), Marker("<|tools_suffix|>")),
    reasoning=Reasoning(Marker("<|inner_prefix|>"), Marker("<|inner_suffix|>")),
    between=", ",
    ends=("<|assistant_end|>",),
)
