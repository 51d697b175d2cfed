"""Gemma 4: an own spelling of objects: bare keys, strings between tokens.

Read from the template of Gemma 4 31B, which writes content after the calls.
"""

from grammars.wire.format import (
    ContentPlace,
    Format,
    JsonArguments,
    JsonStyle,
    Literal,
    Marker,
    Name,
    Reasoning,
)

GEMMA4 = Format(
    name="gemma4",
    call=(
        Marker("<|tool_call>"),
        Literal("call:"),
        Name(),
        JsonArguments(
            JsonStyle(
                item=",",
                key=":",
                quotes=('<|"|>',),
                escapes=False,
                bare_keys=True,
                sorted_keys=True,
                null=("None", "null"),
            )
        ),
        Marker("<tool_call|>"),
    ),
    reasoning=Reasoning(Marker("<|channel>thought"), Marker("<channel|>"), "\n", "\n"),
    content_places=(ContentPlace.AFTER, ContentPlace.BEFORE),
    ends=("<turn|>", "<|tool_response>"),
    strays=("<|channel>", "<channel|>"),
)
