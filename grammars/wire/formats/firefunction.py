"""Firefunction v2: a word and one JSON list of all calls.

Read from the template of Llama 3 Firefunction v2.
"""

from grammars.wire.format import Format, JsonCall, Literal, Marker

FIREFUNCTION = Format(
    name="firefunction",
    opening=(Marker("functools["),),
    call=(JsonCall(),),
    closing=(Literal("]"),),
    before=" ",
    between=", ",
    ends=("<|eot_id|>",),
)
