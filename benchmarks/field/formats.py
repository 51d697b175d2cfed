"""Wire formats that parsers of other projects read and our registry does not have, each as the
sources of its parser describe it. Most are a known format with other tags."""

from dataclasses import replace

from grammars.wire.format import (
    Format,
    JsonArguments,
    JsonCall,
    JsonStyle,
    KeywordArguments,
    Literal,
    Marker,
    Name,
    Reasoning,
    TaggedArguments,
)
from grammars.wire.formats import FORMATS

_KNOWN = {format.name: format for format in FORMATS}
_HERMES = _KNOWN["hermes"]


def _write_tagged(name: str, opener: str, closer: str) -> Format:
    """Returns a format with an object of JSON between tags."""
    call = (Marker(opener), Literal("\n"), JsonCall(), Literal("\n"), Marker(closer))
    return replace(_HERMES, name=name, call=call, reasoning=None)


def _write_list(name: str, opener: str, closer: str = "", arguments: str = "arguments") -> Format:
    """Returns a format with all calls in one list of JSON."""
    closing = (Literal("]"), Marker(closer)) if closer else (Literal("]"),)
    return Format(
        name=name,
        opening=(Marker(opener), Literal("[")),
        call=(JsonCall(arguments_key=arguments),),
        closing=closing,
        between=", ",
        ends=("<|end|>",),
    )


def _write_keys(name: str, suffix: str, *, between: str, line: str, separated: bool) -> Format:
    """Returns a format of Hunyuan's kind."""

    def tag(text: str) -> str:
        return f"<{text}{suffix}>"

    separator = (Marker(tag("tool_sep")),) if separated else ()
    return Format(
        name=name,
        opening=(Marker(tag("tool_calls")), *([Literal(line)] if line else [])),
        call=(
            Marker(tag("tool_call")),
            Name(),
            *separator,
            *([Literal(line)] if line else []),
            TaggedArguments(
                open=tag("arg_key"),
                after_key=f"{tag('/arg_key')}{between}{tag('arg_value')}",
                close=f"{tag('/arg_value')}{line}",
                end=tag("/tool_call"),
            ),
        ),
        closing=(*([Literal(line)] if line else []), Marker(tag("/tool_calls"))),
        reasoning=Reasoning(Marker(tag("think")), Marker(tag("/think"))),
        between=line,
        ends=("<｜hy_eos｜>",),
    )


def _write_invokes(name: str, opener: str, closer: str) -> Format:
    """Returns a format of MiniMax M2's kind."""
    known = _KNOWN["minimax_m2"]
    opening = (Marker(opener), Literal("\n"))
    closing = (Literal("\n"), Marker(closer))
    return replace(known, name=name, opening=opening, closing=closing, reasoning=None)


MORE = (
    _write_list("jamba", "<tool_calls>", "</tool_calls>"),
    _write_list("granite", "<|tool_call|>"),
    _write_list("phi4_mini", "functools"),
    _write_tagged("longcat", "<longcat_tool_call>", "</longcat_tool_call>"),
    _write_invokes("dots", "<dots_function_call>", "</dots_function_call>"),
    _write_keys("hy_v3", "", between="\n", line="\n", separated=True),
    _write_keys("hy_v4", "", between="", line="", separated=False),
    replace(
        _write_keys("k2_horizon", "", between="", line="", separated=False),
        opening=(Marker("<ifm|tool_calls>"),),
        call=(
            Marker("<ifm|tool_call>"),
            Name(),
            TaggedArguments(
                open="<ifm|arg_key>",
                after_key="</ifm|arg_key><ifm|arg_value>",
                close="</ifm|arg_value>",
                end="</ifm|tool_call>",
            ),
        ),
        closing=(Marker("</ifm|tool_calls>"),),
        reasoning=Reasoning(Marker("<ifm|think>"), Marker("</ifm|think>")),
        between="",
    ),
    replace(
        _KNOWN["glm45"],
        name="poolside_v1",
        ends=("</assistant>",),
    ),
    replace(_HERMES, name="ernie45"),
    replace(
        _KNOWN["qwen3_coder"],
        name="mimo",
        call=(
            Marker("<tool_call>"),
            Literal("\n<function="),
            Name(),
            Literal(">\n"),
            TaggedArguments(
                open="<parameter=", after_key=">", close="</parameter>\n", end="</function>"
            ),
            Literal("\n"),
            Marker("</tool_call>"),
        ),
    ),
    Format(
        name="granite_20b_fc",
        call=(Marker("<function_call>"), Literal(" "), JsonCall()),
        before="\n",
        between="\n",
        ends=("<|endoftext|>",),
    ),
    Format(
        name="internlm",
        call=(
            Marker("<|action_start|>"),
            Marker("<|plugin|>"),
            Literal("\n"),
            JsonCall(arguments_key="parameters"),
            Marker("<|action_end|>"),
        ),
        ends=("<|im_end|>",),
        single=True,
    ),
    Format(
        name="pythonic",
        opening=(Literal("["),),
        call=(Name(), Literal("("), KeywordArguments(quote=""), Literal(")")),
        closing=(Literal("]"),),
        between=", ",
        ends=("<|eom_id|>",),
    ),
    Format(
        name="llama4_pythonic",
        opening=(Marker("<|python_start|>"), Literal("[")),
        call=(Name(), Literal("("), KeywordArguments(quote=""), Literal(")")),
        closing=(Literal("]"), Marker("<|python_end|>")),
        between=", ",
        ends=("<|eom|>",),
    ),
    Format(
        name="olmo3",
        opening=(Marker("<function_calls>"),),
        call=(Name(), Literal("("), KeywordArguments(quote=""), Literal(")")),
        closing=(Marker("</function_calls>"),),
        between="\n",
        ends=("<|im_end|>",),
    ),
    Format(
        name="xlam",
        opening=(Literal("["),),
        call=(JsonCall(),),
        closing=(Literal("]"),),
        between=", ",
        ends=("<|eot_id|>",),
    ),
    Format(
        name="step3",
        opening=(Marker("<｜tool_calls_begin｜>"), Literal("\n")),
        call=(
            Marker("<｜tool_call_begin｜>"),
            Literal('function<｜tool_sep｜><steptml:invoke name="'),
            Name(),
            Literal('">'),
            TaggedArguments(
                open='<steptml:parameter name="',
                after_key='">',
                close="</steptml:parameter>",
                end="</steptml:invoke>",
            ),
            Marker("<｜tool_call_end｜>"),
        ),
        closing=(Literal("\n"), Marker("<｜tool_calls_end｜>")),
        between="\n",
        ends=("<|im_end|>",),
    ),
    Format(
        name="plamo3",
        opening=(Marker("<|plamo:begin_tool_requests:plamo|>"),),
        call=(
            Marker("<|plamo:begin_tool_request:plamo|>"),
            Literal("<|plamo:begin_tool_name:plamo|>"),
            Name(),
            Literal(
                "<|plamo:end_tool_name:plamo|><|plamo:begin_tool_arguments:plamo|>"
                "<|plamo:constrain|>json<|plamo:msg|>"
            ),
            JsonArguments(),
            Literal("<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>"),
        ),
        closing=(Marker("<|plamo:end_tool_requests:plamo|>"),),
        reasoning=Reasoning(
            Marker("<|plamo:begin_think:plamo|>"), Marker("<|plamo:end_think:plamo|>")
        ),
        ends=("<|plamo:tag|>",),
    ),
    Format(
        name="inkling",
        call=(
            Marker("<|content_invoke_tool_json|>"),
            JsonCall(arguments_key="args"),
            Marker("<|end_message|>"),
        ),
        ends=("<|content_model_end_sampling|>",),
    ),
    Format(
        name="functiongemma",
        call=(
            Marker("<start_function_call>"),
            Literal("call:"),
            Name(),
            JsonArguments(
                JsonStyle(item=",", key=":", quotes=("<escape>",), escapes=False, bare_keys=True)
            ),
            Marker("<end_function_call>"),
        ),
        ends=("<end_of_turn>",),
    ),
)
