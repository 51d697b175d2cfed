"""The format algebra: how a model writes an assistant turn, as a value.

Start with `format`; `nodes` has the literals, markers and typed holes of a call, `variants` those
that only the parser knows, in recovery. Needs `grammars.errors`, and `grammars.schema.subschemas`
for JSON pointers.
"""

from grammars.wire.format import Content, ContentPlace, Format, Reasoning, Several, find_named
from grammars.wire.nodes import (
    CallId,
    CallIndex,
    JsonArguments,
    JsonCall,
    JsonStyle,
    KeywordArguments,
    Literal,
    Marker,
    Name,
    NestedArguments,
    TaggedArguments,
    TextWrapper,
)

__all__ = [
    "CallId",
    "CallIndex",
    "Content",
    "ContentPlace",
    "Format",
    "JsonArguments",
    "JsonCall",
    "JsonStyle",
    "KeywordArguments",
    "Literal",
    "Marker",
    "Name",
    "NestedArguments",
    "Reasoning",
    "Several",
    "TaggedArguments",
    "TextWrapper",
    "find_named",
]
