"""Functionary 3.1: the name in a tag, JSON after it.

Read from the template of Functionary medium 3.1.
"""

from grammars.wire.format import Format, JsonArguments, Literal, Marker, Name

FUNCTIONARY_V31 = Format(
    name="functionary_v31",
    call=(Marker("<function="), Name(), Literal(">"), JsonArguments(), Literal("</function>")),
    ends=("<|eom_id|>", "<|eot_id|>"),
)
