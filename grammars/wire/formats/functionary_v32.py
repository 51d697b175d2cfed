"""Functionary 3.2: every part of a turn names its recipient; `all` is the user.

Read from the template of Functionary medium 3.2, whose prompt ends with the first `>>>`.
"""

from grammars.wire.format import Content, Format, JsonArguments, JsonStyle, Literal, Marker, Name

FUNCTIONARY_V32 = Format(
    name="functionary_v32",
    call=(Marker(">>>"), Name(), Literal("\n"), JsonArguments(JsonStyle())),
    contents=(Content(">>>all\n"),),
    ends=("<|eot_id|>",),
)
