"""Formats that no model is known to write, with constructs that the registry has not together."""

from dataclasses import replace

from grammars.wire.format import (
    CallId,
    CallIndex,
    Content,
    Format,
    JsonArguments,
    JsonCall,
    JsonStyle,
    KeywordArguments,
    Literal,
    Marker,
    Name,
    Reasoning,
    Several,
    TaggedArguments,
    TextWrapper,
)


def in_python(name: str, hole: KeywordArguments, between: str = ", ") -> Format:
    """A format whose calls are those of Python, in a list between tags."""
    return Format(
        name,
        (Name(), Literal("("), hole, Literal(")")),
        opening=(Marker("<calls>"), Literal("[")),
        closing=(Literal("]"), Marker("</calls>")),
        between=between,
        reasoning=Reasoning(Marker("<think>"), Marker("</think>")),
    )


BARE_LIST = Format(
    "bare list",
    (JsonCall(),),
    opening=(Literal("["),),
    closing=(Literal("]"),),
    between=", ",
    reasoning=Reasoning(Marker("<think>"), Marker("</think>")),
)
BARE_OBJECTS = Format("bare objects", (JsonCall(arguments_key="parameters"),), between=",")
BARE_LINES = Format(
    "bare lines",
    (JsonCall(style=JsonStyle(indent=2, level=1), id=CallId(), id_first=True),),
    opening=(Literal("[\n  "),),
    closing=(Literal("\n]"),),
    between=",\n  ",
)
BARE_MEMBER = Format(
    "a bare list in an object",
    (JsonCall(),),
    opening=(Literal('{"tool_calls": ['),),
    closing=(Literal("]}"),),
    between=", ",
)
ARGUMENTS_FIRST = Format(
    "arguments first",
    (
        Marker("<call>"),
        Literal('{ "arguments": '),
        JsonArguments(),
        Literal(', "name": "'),
        Name(),
        Literal('" }'),
        Marker("</call>"),
    ),
    between=" ",
)
ENCODED = Format(
    "arguments in a JSON string",
    (
        Marker("<call>"),
        Literal('{"name": "'),
        Name(),
        Literal('", "arguments": '),
        JsonArguments(encoded=True),
        Literal("}"),
        Marker("</call>"),
    ),
)
ENCODED_FIRST = Format(
    "arguments in a JSON string, in front of the name",
    (
        Marker("<call>"),
        JsonArguments(JsonStyle(item=",", key=":", indent=2), encoded=True),
        Literal(" -> "),
        Name(),
        Marker("</call>"),
    ),
)
ENCODED_BEHIND_NAME = Format(
    "arguments in a JSON string, right behind the name",
    (Marker("<call>"), Name(), JsonArguments(encoded=True), Marker("</call>")),
)
BARE_NESTED = Format(
    "bare nested objects",
    (
        Literal('{"id": "'),
        CallId(),
        Literal('", "function": {"name": "'),
        Name(),
        Literal('", "arguments": '),
        JsonArguments(),
        Literal("}}"),
    ),
    opening=(Literal("["),),
    closing=(Literal("]"),),
    between=", ",
)
HEADER_GOES_ON = Format(
    "calls that go on with the header",
    (JsonCall(),),
    opening=(Marker("-> tool/call"), Literal("\n[")),
    closing=(Literal("]"),),
    between=", ",
    before="<|im_end|>\n<|im_start|>assistant ",
    reasoning=Reasoning(
        Marker("/think"),
        Marker("<|im_end|>\n<|im_start|>assistant"),
        pad_open="\n",
        next_opener="<|im_start|>assistant",
    ),
    ends=("<|im_end|>",),
)


def in_bare_python(name: str, quote: str) -> Format:
    """A format whose calls are those of Python, in a list that nothing opens."""
    return Format(
        name,
        (Name(), Literal("("), KeywordArguments(quote=quote), Literal(")")),
        opening=(Literal("["),),
        closing=(Literal("]"),),
        between=", ",
    )


BARE_PYTHON = in_bare_python("bare calls in Python", quote="")
SPACE_IN_FRONT = Format(
    "white space in front of names and keys",
    (
        Marker("<call>"),
        Literal("run "),
        Name(),
        Literal(" with\n"),
        TaggedArguments(
            open="  <arg ",
            after_key=" type=",
            kinds=(("string", "text"), ("", "json")),
            after_kind=">",
            close="</arg>\n",
            end="</call>",
        ),
    ),
    between="\n",
)
WRAPPED = Format(
    "every string in a wrapper",
    (
        Marker("<call>"),
        Name(),
        TaggedArguments(
            open="<arg><key>",
            after_key="</key><val>",
            close="</val></arg>",
            end="</call>",
            wrapper=TextWrapper("<![CDATA[", "]]>", triggers=("",)),
        ),
    ),
)
LIST_WHEN_SEVERAL = Format(
    "a list where there are several calls",
    (JsonCall(),),
    opening=(Marker("<calls>"),),
    closing=(Marker("</calls>"),),
    several=Several(
        (Marker("<calls>"), Literal("[")), (Literal("]"), Marker("</calls>")), between=", "
    ),
)
WRAPPED_WHEN_SEVERAL = Format(
    "a tag around several calls",
    (Marker("<call>"), Name(), Literal("\n"), JsonArguments(), Marker("</call>")),
    several=Several(
        (Marker("<parallel>"), Literal("\n")), (Literal("\n"), Marker("</parallel>")), between="\n"
    ),
)
FENCED = Format(
    "a fence with a word",
    (Name(), Literal("("), KeywordArguments(quote=""), Literal(")")),
    opening=(Marker("```"), Literal("tool_code\n")),
    closing=(Literal("\n```"),),
    between="\n",
)
HEAD = Format(
    "a turn that is wrapped",
    (Marker("<call>"), JsonCall(), Marker("</call>")),
    reasoning=Reasoning(Marker("<think>"), Marker("</think>")),
    contents=(Content("<say>", "</say>"),),
    head="<turn>",
    tail="</turn>",
)
ANSWER_TAGS = replace(HEAD, name="an answer that is wrapped", contents=(Content(),))
LINES = Format(
    "arguments line by line",
    (
        Marker("<call>"),
        Name(),
        Literal("\nwith:"),
        KeywordArguments("\n  ", ": ", JsonStyle(), quote="", first="\n  "),
        Literal("\n"),
        Marker("</call>"),
    ),
    between="\n",
)
PAIRS = Format(
    "a list of keys and values",
    (
        Marker("<call>"),
        Literal('{"function": "'),
        Name(),
        Literal('", "parameters": ['),
        KeywordArguments(
            '}, {"name": "',
            '", "value": ',
            JsonStyle(),
            quote="",
            sorted_keys=True,
            first='{"name": "',
            last="}",
        ),
        Literal("]}"),
        Marker("</call>"),
    ),
)
LISP = Format(
    "arguments right behind the name",
    (
        Marker("<call>"),
        Literal("("),
        Name(),
        KeywordArguments(" :", " ", JsonStyle(), quote="", first=" :"),
        Literal(")"),
        Marker("</call>"),
    ),
)
YAML = Format(
    "a list that ends with its indentation",
    (
        Literal("- tool: "),
        Name(),
        Literal("\n  input:"),
        KeywordArguments(
            "\n    ",
            ": ",
            JsonStyle(),
            quote="",
            first="\n    ",
            last="\n",
            empty=" {}\n",
        ),
    ),
    opening=(Marker("```"), Literal("yaml\n")),
    closing=(Literal("```"),),
)
HEADINGS = Format(
    "arguments that nothing ends",
    (
        Marker("### Call: "),
        Name(),
        Literal(":"),
        KeywordArguments("\n- **", "**: ", JsonStyle(), quote="", first="\n- **"),
    ),
    between="\n\n",
)
DASHES = Format(
    "a list that ends with dashes",
    (
        Marker("<call>"),
        Name(),
        KeywordArguments("\n- ", ": ", JsonStyle(), quote="", first="\n- ", last="\n---"),
        Marker("</call>"),
    ),
    between="\n",
)
DASHES_AFTER = Format(
    "a list in front of dashes",
    (
        Marker("<call>"),
        Name(),
        KeywordArguments("\n- ", ": ", JsonStyle(), quote="", first="\n- "),
        Literal("\n--"),
        Marker("</call>"),
    ),
    between="\n",
)
TAGGED_PYTHON = Format(
    "a tag for each call in Python",
    (
        Marker("<run>"),
        Name(),
        Literal(".call("),
        KeywordArguments(),
        Literal(")"),
        Marker("</run>"),
    ),
    between="\n",
)
RULED = Format(
    "a line between calls, which begin with a name",
    (Name(), Literal(" | "), JsonArguments()),
    opening=(Marker("<calls>"), Literal("\n")),
    closing=(Literal("\n"), Marker("</calls>")),
    between="\n---\n",
)
ID_LAST = Format(
    "an id at the end",
    (Marker("[CALL]"), Name(), JsonArguments(), Marker("[ID]"), CallId("[a-zA-Z0-9_-]{1,64}")),
)
NAME_CLOSES = Format(
    "tags of the name",
    (Literal("\n<"), Name(), Literal(">"), JsonArguments(), Literal("</"), Name(), Literal(">")),
    opening=(Marker("<calls>"),),
    closing=(Literal("\n"), Marker("</calls>")),
)
KEY_TAGS = Format(
    "tags of the keys",
    (
        Marker("<call>"),
        Name(),
        Literal("\n"),
        TaggedArguments(
            open="<",
            after_key=">",
            close="</",
            close_key=">\n",
            end="</call>",
            sorted_keys=True,
        ),
    ),
    between="\n",
)
COUNTED_TAGS = Format(
    "tags with the number of the call",
    (
        Marker("<call_"),
        CallIndex(first=1, id="", anew=True),
        Literal(">"),
        JsonCall(),
        Literal("</call_"),
        CallIndex(first=1, id="", anew=True),
        Literal(">"),
    ),
)
WORDS = Format(
    "words, and thoughts that end with their line",
    (Marker("Action:"), Literal(" "), Name(), Literal("\nAction Input: "), JsonArguments()),
    closing=(Literal("\nPAUSE"),),
    reasoning=Reasoning(Marker("Thought:"), Literal("\n"), pad_open=" "),
    contents=(Content("Answer: "),),
    before="\n",
    between="\n",
)
ID_IN_PYTHON = Format(
    "an id in front of a call in Python",
    (
        Marker("<call>"),
        CallId("[a-z0-9]{1,9}"),
        Literal(" = "),
        Name(),
        Literal("("),
        KeywordArguments(quote=""),
        Literal(")"),
        Marker("</call>"),
    ),
    between="\n",
)
HEREDOCS = Format(
    "keys that begin a line, and a name that closes the call",
    (
        Marker("<run>"),
        Name(),
        TaggedArguments(open="\n", after_key="<<E\n", close="\nE", end="\nEND "),
        Name(),
        Marker("</run>"),
    ),
)
BARE_KEYS = Format(
    "keys without quotes",
    (Marker("<js>"), Name(), JsonArguments(JsonStyle(bare_keys=True)), Marker("</js>")),
)
ANSWER_IN_STRING = Format(
    "one object with an answer or with a list of calls",
    (JsonCall(),),
    opening=(Literal('{"calls": ['),),
    closing=(Literal("]}"),),
    contents=(Content('{"answer": "', '"}', calls=False, escaped=True),),
    between=", ",
)
FINAL_ANSWER = Format(
    "an answer with the keys of a call",
    (JsonCall(name_key="action", arguments_key="input"),),
    reasoning=Reasoning(Marker("<think>"), Marker("</think>")),
    contents=(Content('{"action": "final", "input": "', '"}', calls=False, escaped=True),),
    between="\n",
)
FORMATS = {
    format.name: format
    for format in (
        in_python("double quotes", KeywordArguments(quote='"')),
        in_python("lists of JSON", KeywordArguments(style=JsonStyle()), between="\n"),
        in_python("double quotes and JSON", KeywordArguments(style=JsonStyle(), quote='"')),
        in_python("escapes", KeywordArguments(quote="")),
        in_python("strings of JSON", KeywordArguments(strings=JsonStyle(), quote="")),
        BARE_PYTHON,
        in_bare_python("bare calls in Python, raw strings", quote='"'),
        ARGUMENTS_FIRST,
        ENCODED,
        ENCODED_FIRST,
        ENCODED_BEHIND_NAME,
        HEADER_GOES_ON,
        BARE_NESTED,
        BARE_LIST,
        BARE_OBJECTS,
        BARE_LINES,
        BARE_MEMBER,
        SPACE_IN_FRONT,
        WRAPPED,
        FENCED,
        LIST_WHEN_SEVERAL,
        WRAPPED_WHEN_SEVERAL,
        HEAD,
        ANSWER_TAGS,
        LINES,
        PAIRS,
        LISP,
        YAML,
        HEADINGS,
        DASHES,
        DASHES_AFTER,
        TAGGED_PYTHON,
        RULED,
        ID_LAST,
        NAME_CLOSES,
        KEY_TAGS,
        COUNTED_TAGS,
        WORDS,
        ID_IN_PYTHON,
        HEREDOCS,
        BARE_KEYS,
        ANSWER_IN_STRING,
        FINAL_ANSWER,
    )
}
