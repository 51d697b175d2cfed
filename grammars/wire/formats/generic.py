"""The generic format, for templates that know no tools; instructions in the prompt teach it.

JSON between tags that many models have met in training.
"""

from grammars.wire.format import Format, JsonCall, Literal, Marker

GENERIC = Format(
    name="generic",
    call=(Marker("<tool_call>"), Literal("\n"), JsonCall(), Literal("\n"), Marker("</tool_call>")),
    before="\n",
    between="\n",
)
