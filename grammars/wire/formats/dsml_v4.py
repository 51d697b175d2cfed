"""DeepSeek V4: as V3.2, with another outer tag, and a line of its own for no arguments.

Read from the template of DeepSeek V4.
"""

from dataclasses import replace

from grammars.wire.format import Literal, Marker, TaggedArguments
from grammars.wire.formats.dsml import DSML

DSML_V4 = replace(
    DSML,
    name="dsml_v4",
    opening=(Marker("<｜DSML｜tool_calls>"), Literal("\n")),
    call=tuple(
        replace(node, empty="\n</｜DSML｜invoke>") if isinstance(node, TaggedArguments) else node
        for node in DSML.call
    ),
    closing=(Literal("\n"), Marker("</｜DSML｜tool_calls>")),
)
