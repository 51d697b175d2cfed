"""Formats with tags around each argument (`TaggedArguments`, `NestedArguments`)."""

from dataclasses import replace

from grammars.wire.format import (
    PYTHON,
    CallIndex,
    Content,
    Format,
    Literal,
    Marker,
    Name,
    NestedArguments,
    Reasoning,
    TaggedArguments,
    TextWrapper,
)

DSML = Format(
    name="dsml",
    opening=(Marker("<｜DSML｜function_calls>"), Literal("\n")),
    call=(
        Literal('<｜DSML｜invoke name="'),
        Name(),
        Literal('">\n'),
        TaggedArguments(
            open='<｜DSML｜parameter name="',
            after_key='" string="',
            kinds=(("string", "true"), ("", "false")),
            after_kind='">',
            close="</｜DSML｜parameter>\n",
            end="</｜DSML｜invoke>",
        ),
    ),
    closing=(Literal("\n"), Marker("</｜DSML｜function_calls>")),
    reasoning=Reasoning(Marker("<think>"), Marker("</think>")),
    before="\n\n",
    between="\n",
    ends=("<｜end▁of▁sentence｜>",),
)
"""DeepSeek V3.2: XML whose tags tell whether a value is text or JSON."""

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
"""DeepSeek V4: as V3.2, with another outer tag, and a line of its own for no arguments."""

GLM45 = Format(
    name="glm45",
    call=(
        Marker("<tool_call>"),
        Name(),
        Literal("\n"),
        TaggedArguments(
            open="<arg_key>",
            after_key="</arg_key>\n<arg_value>",
            close="</arg_value>\n",
            end="</tool_call>",
        ),
    ),
    reasoning=Reasoning(Marker("<think>"), Marker("</think>"), after="\n"),
    before="\n",
    between="\n",
    ends=("<|user|>", "<|observation|>"),
)
"""GLM 4.6, and 4.5, Laguna XS: keys and values between tags, a line each. A turn ends where the
next one begins."""

GLM47 = Format(
    name="glm47",
    call=(
        Marker("<tool_call>"),
        Name(),
        TaggedArguments(
            open="<arg_key>",
            after_key="</arg_key><arg_value>",
            close="</arg_value>",
            end="</tool_call>",
        ),
    ),
    reasoning=Reasoning(Marker("<think>"), Marker("</think>")),
    ends=("<|user|>", "<|observation|>"),
)
"""GLM 4.7 Flash, Spark 2.5, Laguna S: keys and values between tags, without line breaks. A turn
ends where the next one begins."""

HUNYUAN = Format(
    name="hunyuan",
    opening=(Marker("<tool_calls:opensource>"), Literal("\n")),
    call=(
        Marker("<tool_call:opensource>"),
        Name(),
        Marker("<tool_sep:opensource>"),
        Literal("\n"),
        TaggedArguments(
            open="<arg_key:opensource>",
            after_key="</arg_key:opensource>\n<arg_value:opensource>",
            close="</arg_value:opensource>\n",
            end="</tool_call:opensource>",
        ),
    ),
    closing=(Literal("\n"), Marker("</tool_calls:opensource>")),
    reasoning=Reasoning(Marker("<think:opensource>"), Marker("</think:opensource>")),
    between="\n",
    ends=("<｜hy_eos:opensource｜>",),
)
"""Hunyuan 3 (Hy3): keys and values between tags, all calls between one more pair."""

KIMI_K3 = Format(
    name="kimi_k3",
    opening=(Marker("<|open|>tools<|sep|>"),),
    call=(
        Marker("<|open|>"),
        Literal('call tool="'),
        Name(),
        Literal('" index="'),
        CallIndex(first=1, id="", anew=True),
        Literal('"'),
        Marker("<|sep|>"),
        TaggedArguments(
            open='<|open|>argument key="',
            after_key='" type="',
            kinds=(
                ("string", "string"),
                ("number", "number"),
                ("boolean", "boolean"),
                ("null", "null"),
                ("array", "array"),
                ("object", "object"),
            ),
            after_kind='"<|sep|>',
            close="<|close|>argument<|sep|>",
            end="<|close|>call<|sep|>",
        ),
    ),
    closing=(Marker("<|close|>tools<|sep|>"),),
    reasoning=Reasoning(Marker("<|open|>think<|sep|>"), Marker("<|close|>think<|sep|>")),
    contents=(Content("<|open|>response<|sep|>", "<|close|>response<|sep|>"),),
    tail="<|close|>message<|sep|>",
    ends=("<|end_of_msg|>",),
)
"""Kimi-K3: tags of several tokens each; an argument states its type."""

LING = Format(
    name="ling",
    call=(
        Marker("<tool_call>"),
        Name(),
        Literal("\n"),
        TaggedArguments(
            open="<arg_key>",
            after_key="</arg_key>\n<arg_value>",
            close="</arg_value>",
            end="\n</tool_call>",
        ),
    ),
    reasoning=Reasoning(Marker("<think>"), Marker("</think>")),
    before="\n",
    between="\n",
    ends=("<|role_end|>",),
)
"""Ling 3.0 flash: the tags of GLM with line breaks of its own."""

MINICPM5 = Format(
    name="minicpm5",
    call=(
        Marker('<function name="'),
        Name(),
        Literal('">'),
        TaggedArguments(
            open='<param name="',
            after_key='">',
            close="</param>",
            end="</function>",
            true=PYTHON.true,
            false=PYTHON.false,
            null=PYTHON.null,
            style=PYTHON,
            wrapper=TextWrapper("<![CDATA[", "]]>", triggers=("<", "&", "\n")),
        ),
    ),
    reasoning=Reasoning(Marker("<think>"), Marker("</think>"), "\n", "\n", "\n\n"),
    before="\n",
    between="\n",
    ends=("<|im_end|>",),
)
"""MiniCPM5 1B: compact XML, Python's words, CDATA around strings that hold XML's own characters."""

MINIMAX_M2 = Format(
    name="minimax_m2",
    opening=(Marker("<minimax:tool_call>"), Literal("\n")),
    call=(
        Literal('<invoke name="'),
        Name(),
        Literal('">\n'),
        TaggedArguments(
            open='<parameter name="', after_key='">', close="</parameter>\n", end="</invoke>"
        ),
    ),
    closing=(Literal("\n"), Marker("</minimax:tool_call>")),
    reasoning=Reasoning(Marker("<think>"), Marker("</think>"), "\n", "\n", "\n\n"),
    before="\n",
    between="\n",
    ends=("[e~[",),
)
"""MiniMax-M2 XML: all calls of a turn between one pair of tags."""

MINIMAX_M3 = Format(
    name="minimax_m3",
    opening=(Marker("]<]minimax[>[<tool_call>"), Literal("\n")),
    call=(
        Literal(']<]minimax[>[<invoke name="'),
        Name(),
        Literal('">'),
        NestedArguments("]<]minimax[>["),
        Literal("]<]minimax[>[</invoke>\n"),
    ),
    closing=(Marker("]<]minimax[>[</tool_call>"),),
    reasoning=Reasoning(Marker("<mm:think>"), Marker("</mm:think>"), starts_closed=True),
    ends=("[e~[",),
)
"""MiniMax-M3: every tag after one token, objects and lists as tags in tags. Its template leaves out
members that are null."""

MUSE = Format(
    name="muse",
    call=(
        Marker(" to="),
        Name(),
        Marker("<|message|>"),
        Marker("<atem:function_calls>"),
        Literal('\n<atem:invoke name="'),
        Name(),
        Literal('">\n'),
        TaggedArguments(
            open='<atem:parameter name="',
            after_key='">',
            close="</atem:parameter>\n",
            end="</atem:invoke>",
        ),
        Literal("\n"),
        Marker("</atem:function_calls>"),
    ),
    reasoning=Reasoning(
        Marker(" to=self<|message|>"),
        Marker("<|eom|><|start|>assistant"),
        next_opener="<|start|>assistant",
    ),
    contents=(Content(" to=user<|message|>"),),
    before="<|eom|><|start|>assistant",
    between="<|eom|><|start|>assistant",
    ends=("<|eot|>",),
)
"""Muse Glimmer: every part of a turn is a message to a recipient; the call itself is XML. Its
template drops content beside a call; models may write it."""

QWEN3_CODER = Format(
    name="qwen3_coder",
    call=(
        Marker("<tool_call>"),
        Literal("\n<function="),
        Name(),
        Literal(">\n"),
        TaggedArguments(
            open="<parameter=",
            after_key=">\n",
            close="\n</parameter>\n",
            end="</function>",
            true=("True", "true"),
            false=("False", "false"),
            null=("None", "null"),
        ),
        Literal("\n"),
        Marker("</tool_call>"),
    ),
    reasoning=Reasoning(Marker("<think>"), Marker("</think>"), "\n", "\n", "\n\n"),
    before="\n",
    between="\n",
    ends=("<|im_end|>",),
)
"""From the templates of Qwen3-Coder (calls) and Qwen3.5-4B (reasoning), also Nemotron 3 Nano and
Step 3.5. The templates write Python's words for true, false and null, and JSON in lists and
objects."""

SEED_OSS = Format(
    name="seed_oss",
    call=(
        Marker("<seed:tool_call>"),
        Literal("\n<function="),
        Name(),
        Literal(">\n"),
        TaggedArguments(
            open="<parameter=",
            after_key=">",
            close="</parameter>\n",
            end="</function>",
            true=PYTHON.true,
            false=PYTHON.false,
            null=PYTHON.null,
            style=PYTHON,
        ),
        Literal("\n"),
        Marker("</seed:tool_call>"),
    ),
    reasoning=Reasoning(Marker("<seed:think>"), Marker("</seed:think>"), after="\n"),
    before="\n",
    between="\n",
    ends=("<seed:eos>",),
)
"""Seed-OSS 36B: the tags of Qwen3-Coder, values without line breaks around them, Python's words."""
