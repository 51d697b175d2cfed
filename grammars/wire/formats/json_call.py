"""Formats whose calls are JSON objects with the name in them (`JsonCall`)."""

from dataclasses import replace

from grammars.wire.format import (
    CallId,
    CallIndex,
    Content,
    Format,
    JsonCall,
    JsonStyle,
    Literal,
    Marker,
    Reasoning,
)

APRIEL = Format(
    name="apriel",
    opening=(Marker("<tool_calls>"), Literal("[")),
    call=(JsonCall(),),
    closing=(Literal("]"), Marker("</tool_calls>")),
    before="\n",
    between=", ",
    ends=("<|end|>",),
)
"""Apriel 1.5: all calls in one JSON list between tags."""

COMMAND_R = Format(
    name="command_r",
    opening=(Marker("Action:"), Literal("\n```json\n[\n    ")),
    call=(JsonCall("tool_name", "parameters", JsonStyle(indent=4, level=1)),),
    closing=(Literal("\n]```"),),
    between=",\n    ",
    ends=("<|END_OF_TURN_TOKEN|>",),
)
"""Command R+ for tool use: an indented JSON list in a fence."""

COMMAND_R7B = Format(
    name="command_r7b",
    opening=(Marker("<|START_ACTION|>"), Literal("[\n    ")),
    call=(
        JsonCall("tool_name", "parameters", id=CallIndex(), id_key="tool_call_id", id_first=True),
    ),
    closing=(Literal("\n]"), Marker("<|END_ACTION|>")),
    reasoning=Reasoning(Marker("<|START_THINKING|>"), Marker("<|END_THINKING|>")),
    contents=(Content("<|START_RESPONSE|>", "<|END_RESPONSE|>", calls=False),),
    between=",\n    ",
    ends=("<|END_OF_TURN_TOKEN|>",),
)
"""Command R7B for tool use: a JSON list of numbered calls; plain answers between tags, too."""

COHERE_MOE = replace(
    COMMAND_R7B,
    name="cohere_moe",
    contents=(Content("<|START_TEXT|>", "<|END_TEXT|>", calls=False),),
)
"""Cohere2MoE: as Command R7B, with other tags around answers."""

FIREFUNCTION = Format(
    name="firefunction",
    opening=(Marker("functools["),),
    call=(JsonCall(),),
    closing=(Literal("]"),),
    before=" ",
    between=", ",
    ends=("<|eot_id|>",),
)
"""Llama 3 Firefunction v2: a word and one JSON list of all calls."""

GENERIC = Format(
    name="generic",
    call=(Marker("<tool_call>"), Literal("\n"), JsonCall(), Literal("\n"), Marker("</tool_call>")),
    before="\n",
    between="\n",
)
"""For templates that know no tools; instructions in the prompt teach it. JSON between tags that
many models have met in training."""

GIGACHAT3 = Format(
    name="gigachat3",
    call=(
        Marker("<|message_sep|>"),
        Literal("\n\nfunction call"),
        Marker("<|role_sep|>"),
        Literal("\n"),
        JsonCall(),
    ),
    ends=("<|message_sep|>",),
    single=True,
)
"""GigaChat3 10B: a call is a message with a role of its own."""

GIGACHAT31 = Format(
    name="gigachat31",
    call=(Marker("<|function_call|>"), JsonCall()),
    ends=("<|message_sep|>",),
    single=True,
)
"""GigaChat3.1 10B: a tag and JSON."""

HERMES = Format(
    name="hermes",
    call=(Marker("<tool_call>"), Literal("\n"), JsonCall(), Literal("\n"), Marker("</tool_call>")),
    reasoning=Reasoning(Marker("<think>"), Marker("</think>"), "\n", "\n", "\n\n"),
    before="\n",
    between="\n",
    ends=("<|im_end|>",),
)
"""Hermes JSON, from the template of Qwen3-0.6B: Qwen2.5, Qwen3, QwQ, MiMo-VL, Hermes 2 and 3,
Granite 4, Bielik, Reka."""

LLAMA3_JSON = Format(
    name="llama3_json",
    call=(JsonCall(arguments_key="parameters"),),
    ends=("<|eot_id|>",),
    single=True,
)
"""Llama 3.1, 3.2 and 3.3. No marker: a turn is text, or one JSON object. The template of 3.1
refuses a turn with two calls."""

MINIMAX_M1 = Format(
    name="minimax_m1",
    opening=(Marker("<tool_calls>"), Literal("\n")),
    call=(JsonCall(),),
    closing=(Literal("\n"), Marker("</tool_calls>")),
    before="\n",
    between="\n",
    ends=("<end_of_sentence>",),
)
"""MiniMax-M1: JSON objects between tags, a line each."""

MISTRAL_NEMO = Format(
    name="mistral_nemo",
    opening=(Marker("[TOOL_CALLS]"), Literal("[")),
    call=(JsonCall(id=CallId()),),
    closing=(Literal("]"),),
    between=", ",
    ends=("</s>",),
)
"""Mistral Nemo 2407: one JSON list, ids of nine characters in it."""

NEMOTRON_V2 = Format(
    name="nemotron_v2",
    opening=(Marker("<TOOLCALL>"), Literal("[")),
    call=(JsonCall(),),
    closing=(Literal("]"), Marker("</TOOLCALL>")),
    reasoning=Reasoning(Marker("<think>"), Marker("</think>"), "\n", "\n", "\n"),
    between=", ",
    ends=("<SPECIAL_12>",),
)
"""Nemotron Nano v2: all calls in one JSON list between tags."""
