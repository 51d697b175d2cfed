"""Formats with a name, and arguments that are a JSON object (`JsonArguments`)."""

from grammars.wire.format import (
    CallId,
    CallIndex,
    Content,
    ContentPlace,
    Format,
    JsonArguments,
    JsonStyle,
    Literal,
    Marker,
    Name,
    Reasoning,
)
from grammars.wire.variants import Handle, MessageHeaders

APERTUS = Format(
    name="apertus",
    opening=(Marker("<|tools_prefix|>"), Literal("[")),
    call=(Literal('{"'), Name(), Literal('": '), JsonArguments(), Literal("}")),
    closing=(Literal("]"), Marker("<|tools_suffix|>")),
    reasoning=Reasoning(Marker("<|inner_prefix|>"), Marker("<|inner_suffix|>")),
    between=", ",
    ends=("<|assistant_end|>",),
)
"""Apertus 8B: a JSON list of objects whose only key is the name."""

DEEPSEEK_R1 = Format(
    name="deepseek_r1",
    opening=(Marker("<｜tool▁calls▁begin｜>"),),
    call=(
        Marker("<｜tool▁call▁begin｜>"),
        Literal("function"),
        Marker("<｜tool▁sep｜>"),
        Name(),
        Literal("\n```json\n"),
        JsonArguments(),
        Literal("\n```"),
        Marker("<｜tool▁call▁end｜>"),
    ),
    closing=(Marker("<｜tool▁calls▁end｜>"),),
    reasoning=Reasoning(Marker("<think>"), Marker("</think>"), "\n", "\n", "\n"),
    between="\n",
    ends=("<｜end▁of▁sentence｜>",),
)
"""DeepSeek-R1-Distill-Qwen: JSON in a fence, between tags."""

DEEPSEEK_V3 = Format(
    name="deepseek_v3",
    opening=(Marker("<｜tool▁calls▁begin｜>"),),
    call=(
        Marker("<｜tool▁call▁begin｜>"),
        Name(),
        Marker("<｜tool▁sep｜>"),
        JsonArguments(),
        Marker("<｜tool▁call▁end｜>"),
    ),
    closing=(Marker("<｜tool▁calls▁end｜>"),),
    reasoning=Reasoning(Marker("<think>"), Marker("</think>")),
    ends=("<｜end▁of▁sentence｜>",),
)
"""DeepSeek V3.1: a name and JSON, between tags."""

FUNCTIONARY_V31 = Format(
    name="functionary_v31",
    call=(Marker("<function="), Name(), Literal(">"), JsonArguments(), Literal("</function>")),
    ends=("<|eom_id|>", "<|eot_id|>"),
)
"""Functionary medium 3.1: the name in a tag, JSON after it."""

FUNCTIONARY_V32 = Format(
    name="functionary_v32",
    call=(Marker(">>>"), Name(), Literal("\n"), JsonArguments(JsonStyle())),
    contents=(Content(">>>all\n"),),
    ends=("<|eot_id|>",),
)
"""Functionary medium 3.2: every part of a turn names its recipient; `all` is the user. The prompt
ends with the first `>>>`."""

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
"""Gemma 4 31B: an own spelling of objects: bare keys, strings between tokens. Its template writes
content after the calls."""

HARMONY = Format(
    name="harmony",
    call=(
        Marker(" to=functions."),
        Name(),
        Marker("<|channel|>"),
        Literal("commentary json"),
        Marker("<|message|>"),
        JsonArguments(),
    ),
    reasoning=Reasoning(
        Marker("<|channel|>analysis<|message|>"),
        Marker("<|end|><|start|>assistant"),
        next_opener="<|start|>assistant",
    ),
    contents=(
        Content("<|channel|>final<|message|>", calls=False),
        Content("<|channel|>commentary<|message|>", "<|end|><|start|>assistant"),
    ),
    ends=("<|call|>", "<|return|>", "<|end|>"),
    single=True,
    headers=MessageHeaders(
        start="<|start|>",
        role="assistant",
        channel="<|channel|>",
        recipient="to=",
        kind="<|constrain|>",
        kinds=("json", "code"),
        body="<|message|>",
        end="<|end|>",
        thoughts=("analysis",),
        tools="functions.",
        others=("user", "system", "developer"),
    ),
)
"""Harmony, gpt-oss 120b: every part of a turn is a message with a header; a call names its
recipient. The template writes one call in a turn. Its models write headers in many ways: the
recipient in front of the channel or after it, in any channel, the kind of content with or without
`<|constrain|>`, a part twice, or white space around the parts."""

KIMI_K2 = Format(
    name="kimi_k2",
    opening=(Marker("<|tool_calls_section_begin|>"),),
    call=(
        Marker("<|tool_call_begin|>"),
        Literal("functions."),
        Name(),
        Literal(":"),
        CallIndex(id="functions.{name}:{index}"),
        Marker("<|tool_call_argument_begin|>"),
        JsonArguments(),
        Marker("<|tool_call_end|>"),
    ),
    closing=(Marker("<|tool_calls_section_end|>"),),
    reasoning=Reasoning(Marker("<think>"), Marker("</think>")),
    ends=("<|im_end|>",),
    variants=(
        (
            Marker("<|tool_call_begin|>"),
            Handle(
                (
                    "functions.{name}:{index}",
                    "functions_{name}_{index}",
                    "{name}:{index}",
                    "functions.{name}",
                    "{name}",
                ),
                id="functions.{name}:{index}",
            ),
            Marker("<|tool_call_argument_begin|>"),
            JsonArguments(),
            Marker("<|tool_call_end|>"),
        ),
    ),
)
"""Kimi-K2-Thinking: calls carry a number that goes on over the conversation. Its models spell the
id in other ways, too."""

MISTRAL = Format(
    name="mistral",
    call=(Marker("[TOOL_CALLS]"), Name(), Marker("[ARGS]"), JsonArguments()),
    reasoning=Reasoning(Marker("[THINK]"), Marker("[/THINK]")),
    ends=("</s>",),
)
"""Mistral's name and JSON: Ministral 3 14B Reasoning, Devstral Small 2507. Nothing closes a call
but its last brace."""

MISTRAL_SMALL = Format(
    name="mistral_small",
    call=(
        Marker("[TOOL_CALLS]"),
        Name(),
        Marker("[CALL_ID]"),
        CallId(),
        Marker("[ARGS]"),
        JsonArguments(),
    ),
    ends=("</s>",),
)
"""Mistral Small 3.2 24B: name, id and JSON."""

SOLAR = Format(
    name="solar",
    opening=(Marker("<|tool_calls|>"),),
    call=(
        Marker("<|tool_call:begin|>"),
        CallId("[a-zA-Z0-9_-]{1,64}"),
        Marker("<|tool_call:name|>"),
        Name(),
        Marker("<|tool_call:args|>"),
        JsonArguments(),
        Marker("<|tool_call:end|>"),
    ),
    reasoning=Reasoning(
        Marker("<|think|>"),
        Marker("<|end|><|begin|>assistant"),
        next_opener="<|begin|>assistant",
    ),
    contents=(Content("<|content|>", calls=False),),
    ends=("<|calls|>", "<|end|>"),
)
"""Solar Open 100B: id, name and JSON between tags; each part of a turn has a header."""
