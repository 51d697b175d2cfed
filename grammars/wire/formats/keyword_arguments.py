"""Formats with arguments by keyword (`KeywordArguments`)."""

from grammars.wire.format import (
    ContentPlace,
    Format,
    KeywordArguments,
    Literal,
    Marker,
    Name,
    Reasoning,
)

LFM2 = Format(
    name="lfm2",
    opening=(Marker("<|tool_call_start|>"), Literal("[")),
    call=(Name(), Literal("("), KeywordArguments(), Literal(")")),
    closing=(Literal("]"), Marker("<|tool_call_end|>")),
    reasoning=Reasoning(Marker("<think>"), Marker("</think>")),
    content_places=(ContentPlace.BEFORE, ContentPlace.AFTER),
    between=", ",
    ends=("<|im_end|>",),
)
"""LFM2.5 8B A1B: a list of calls in Python, strings without escapes. The templates of LFM2 and
LFM2.5 Instruct show the tools, but write no calls. The model card of LFM2 shows text after the
calls."""
