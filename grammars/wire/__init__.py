"""The format algebra: how a model writes an assistant turn, as a value.

Needs nothing else of this project. Start with `format`; `nodes` has the holes of a call, `text`
writes a format as JSON.
"""

from grammars.wire.format import Content, Format, Reasoning, find_format
from grammars.wire.nodes import (
    CallId,
    CallIndex,
    JsonArguments,
    JsonCall,
    JsonStyle,
    Literal,
    Marker,
    Name,
    NestedArguments,
    PythonArguments,
    TaggedArguments,
)

__all__ = [
    "CallId",
    "CallIndex",
    "Content",
    "Format",
    "JsonArguments",
    "JsonCall",
    "JsonStyle",
    "Literal",
    "Marker",
    "Name",
    "NestedArguments",
    "PythonArguments",
    "Reasoning",
    "TaggedArguments",
    "find_format",
]
