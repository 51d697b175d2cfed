"""Finds the format that a prompt with tools shows: by the texts around the tools and the special
tokens of the model (`SIGNS` of the registry has these texts), by an example of a call, or by a
sentence about calls.

Examples are JSON calls, one object or a list, between tags, after a word (`calls[{...}]`) or bare,
and lists of calls in Python, `[name(key=value)]`; a sentence is one such as "`<|call|>` followed by
a JSON list of calls". Text in messages or tools is not an instruction, so only text that appears
with every tool counts.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from grammars.infer.cutting import find_ends
from grammars.infer.detection import Detection, Evidence, NoFormat, Origin, attempt
from grammars.infer.inference import name_format
from grammars.infer.probes import NAMES, TEXT, ProbedTemplate, show_message
from grammars.infer.text import TAG, find_tags, make_nodes
from grammars.infer.turn import find_frame
from grammars.infer.verify import try_after_prompt
from grammars.turn import Turn
from grammars.wire.format import (
    Fixed,
    Format,
    JsonCall,
    JsonStyle,
    KeywordArguments,
    Literal,
    Marker,
    Name,
    Node,
)
from grammars.wire.formats import NATIVE, SIGNS

NAME_KEYS = ("name", "function", "function_name", "tool", "tool_name")
ARGUMENTS_KEYS = ("arguments", "parameters", "args", "params", "input")
MAX_SHOWN_LENGTH = 120  # characters of the example, for the user

_STAND_IN = (
    r"""<[^<>\n]{1,60}>|\\?"[^"\n]{0,60}"|'[^'\n]{0,60}'|\[[\w .-]{1,60}\]"""
    r"""|\$?\{?[\w .-]{1,60}\}?|\.{3}"""
)
"""What an example has in place of a name: `<function-name>`, `"func_name1"`, `[name]`, `$NAME`."""
_ARGUMENTS = rf"\{{[^{{}}]*\}}|{_STAND_IN}"
_QUOTE = r"""(?P<quote>\\?"|')"""
"""Around the keys of an example: some templates escape it, or write JSON with Python's quotes."""
_NAME_KEY = rf"(?P<name>{'|'.join(NAME_KEYS)})(?P=quote)"
_ARGUMENTS_KEY = rf"(?P<arguments>{'|'.join(ARGUMENTS_KEYS)})(?P=quote)"
_COLON = r"(?P<colon>\s*:\s*)"
_COMMA = r"(?P<comma>\s*,\s*)(?P=quote)"
_CALLS = (
    re.compile(
        rf"\{{\s*{_QUOTE}{_NAME_KEY}{_COLON}(?:{_STAND_IN})"
        rf"{_COMMA}{_ARGUMENTS_KEY}\s*:\s*(?:{_ARGUMENTS})\s*\}}"
    ),
    re.compile(
        rf"\{{\s*{_QUOTE}{_ARGUMENTS_KEY}{_COLON}(?:{_ARGUMENTS})"
        rf"{_COMMA}{_NAME_KEY}\s*:\s*(?:{_STAND_IN})\s*\}}"
    ),
)
"""A call with the name in front, or after its arguments. Members of a JSON object have no order,
and the mask has to know the name to enforce the arguments, so both are written name first."""
SURROUNDINGS = 400  # characters around an example in which its tags are looked for
_TYPES = "list|array|json|tuple|sequence|object|dict"
_OPENER = re.compile(
    r"(?P<tag><[^<>\s/][^<>\s]*>|\[[A-Z][A-Z_]*\])?(?P<space>\s*)"
    rf"(?P<word>\b(?!(?i:{_TYPES})\[)[^\W\d_]\w{{3,}}(?=\[))?(?P<list>\[\s*)?$"
)
"""What precedes an example: a tag, or a word at the bracket of a list, which is no type."""
_CLOSER = re.compile(
    r"(?P<more>\s*,\s*(?:\{[^\n]*\}|\.{3}[^\n\]]*)\s*)*(?P<list>\s*\])?(?P<space>\s*)"
    r"(?P<tag></[^<>\s]+>|<\|[^<>\s]+\|>|\[/[A-Z][A-Z_]*\])?"
)
_STATEMENT = re.compile(
    rf"(?P<tag>{TAG})[`'\"]?,? (?:directly |immediately )?followed by (?:an? |the )?"
    r"(?:valid |single )?JSON (?P<shape>list|array|object|dictionary)(?P<rest>[^.\n]{0,200})"
)
"""A sentence that names a marker and describes the text after it."""
_QUOTED_WORD = re.compile(r"""["'`](\w+)["'`]""")
_WORD = r"[A-Za-z_]\w*"
_PYTHON_VALUE = r"""(?:"[^"\n]{0,60}"|'[^'\n]{0,60}'|<[^<>\n]{1,60}>|[\w.-]{1,60})"""
_PYTHON_ARGUMENT = rf"{_WORD}=(?P<value>{_PYTHON_VALUE})"
_PYTHON_LIST = re.compile(
    rf"\[{_WORD}\({_PYTHON_ARGUMENT}(?P<more>(?:,[^()\[\]\n]{{0,120}})?\.{{0,3}})\)"
    rf"(?:(?P<between>,\s?)(?:{_WORD}\([^()\n]{{0,120}}\)|\.{{3}}))*\]"
)
"""`[name(key=value, ...), name(key=value)]`, as instructions write it; one argument at least, for a
list of functions is none of calls."""


def find_shown(
    chat: ProbedTemplate,
    special_tokens: Collection[str] | None = None,
    *,
    formats: Sequence[Format] = NATIVE,
    signs: Mapping[str, tuple[Fixed, ...]] = SIGNS,
) -> Detection | NoFormat:
    """Returns the known format that a prompt with tools shows, although the template writes no
    calls. There is none if no sign is recognised, they do not suffice, or they fit several formats.
    `special_tokens`: of the model; None: not known, because there is only a template."""
    shown, plain = chat.render(opening=True), chat.render(with_tools=False, opening=True)
    found: dict[Format, str] = {}
    doubts: list[str] = []
    for format in formats:
        for sign in signs.get(format.name, ()):
            if sign.text not in shown or sign.text in plain:
                continue
            if doubt := _doubt(format, sign, special_tokens):
                doubts.append(doubt)
            else:
                found.setdefault(format, sign.text)
    if len(found) > 1:
        names = " and ".join(format.name for format in found)
        return NoFormat(f"the prompt describes more than one tool format: {names}")
    if not found:
        return NoFormat("; ".join(doubts) or "the prompt describes no known tool format")
    ((format, text),) = found.items()
    reason = f"{text!r} in its prompt indicates the tool format {format.name}"
    return _detect(_adapt(format, chat), reason)


def _doubt(format: Format, sign: Fixed, special_tokens: Collection[str] | None) -> str:
    """Returns why the sign does not prove that the model was trained on the format; "" if it
    does."""
    reason = f"{sign.text!r} in the prompt indicates the tool format {format.name}"
    if special_tokens is None:
        if isinstance(sign, Marker):
            return ""
        return (
            f"{reason}, but the special tokens of the model, which could confirm it, are not known"
        )
    nodes = (sign, *format.opening, *format.call, *format.closing)
    needed = [node.text for node in nodes if isinstance(node, Marker)]
    missing = [text for text in needed if text not in special_tokens]
    if not missing:
        return ""
    return f"{reason}, but the model has no special token {' or '.join(missing)}"


def _adapt(known: Format, chat: ProbedTemplate) -> Format:
    """Returns the format with what the template itself writes of a turn."""
    block, own = chat.reasoning, known.reasoning
    if block and own and (block.opener, block.closer) == (own.opener, own.closer):
        block = own  # a template that only drops the block does not show its white space
    answer = show_message(Turn(TEXT))
    head, tail = find_frame(replace(chat, reasoning=block))
    after = chat.render(answer, with_tools=False).partition(TEXT)[2]
    after = after.partition(tail)[2] if tail else after
    ends = tuple(dict.fromkeys([*find_ends(after), *known.ends]))
    return replace(known, reasoning=block, head=head, tail=tail, ends=ends)


def find_stated(chat: ProbedTemplate) -> Detection | NoFormat:
    """Returns the format of the example call that a prompt with tools shows, or of a sentence about
    calls. There is none if several differ, or turns cannot be read back after the generation
    prompt."""
    shown, plain = chat.render(opening=True), chat.render(with_tools=False, opening=True)
    found = {format: text for format, text in _read_examples(shown) if text not in plain}
    if not found:  # an example is more exact than a sentence
        found = {format: text for format, text in _read_statements(shown) if text not in plain}
    if not found:
        return NoFormat("the prompt shows no example of a call")
    if len(found) > 1:
        return NoFormat("the prompt shows calls in more than one form")
    ((format, example),) = found.items()
    adapted = _adapt(name_format(format, measured=False), chat)
    tried = attempt(lambda: tuple(try_after_prompt(chat, adapted)))
    if isinstance(tried, NoFormat):
        return tried
    sign = " ".join(example.split())[:MAX_SHOWN_LENGTH]
    return _detect(adapted, f"its prompt shows calls in the form {sign!r}")


def _detect(format: Format, reason: str) -> Detection:
    return Detection(format, Origin.SHOWN, (Evidence("a prompt with a tool", "", reason),))


def _read_examples(prompt: str) -> Iterator[tuple[Format, str]]:
    """Yields the formats of calls in a prompt, with the examples. The first call of a list tells
    all."""
    listed = range(0)
    for call in chain.from_iterable(pattern.finditer(prompt) for pattern in _CALLS):
        if _names_tool(call.group()):  # the description of a tool has a name and parameters, too
            continue
        if call.start() in listed:
            continue
        start = call.start()
        preceding = prompt[max(0, start - SURROUNDINGS) : start].lower()
        if call["quote"] == "'" and "json" not in preceding:
            continue  # the values could be Python's
        before, after = _look_around(prompt, call)
        is_list = bool(before["list"])
        if is_list:
            listed = range(call.start(), after.end())
        if before["tag"] and not after["tag"]:
            continue  # the example ends elsewhere
        is_broken = "\n" in f"{before['list']}{call.group()}"
        item = ", " if call["comma"].endswith((" ", "\n")) else ","
        key = ": " if call["colon"].endswith(" ") else ":"
        style = JsonStyle(item=item, key=key, loose=is_broken)
        written = JsonCall(name_key=call["name"], arguments_key=call["arguments"], style=style)
        head, tail = _join_tags(before, after)
        head = head or before["word"] or ""
        example = prompt[before.start() : after.end()].strip()
        yield _frame((written,), head=head, tail=tail, is_list=is_list), example
    for written in _PYTHON_LIST.finditer(prompt):
        if not _names_tool(written.group()):
            yield _read_python(written, prompt), written.group()


def _look_around(prompt: str, example: re.Match[str]) -> tuple[re.Match[str], re.Match[str]]:
    """Returns what stands in front of an example and after it. Both may be empty."""
    start, end = example.span()
    before = _OPENER.search(prompt, max(0, start - SURROUNDINGS), start)
    after = _CLOSER.match(prompt, end, end + SURROUNDINGS)
    assert before is not None
    assert after is not None
    return before, after


def _join_tags(before: re.Match[str], after: re.Match[str]) -> tuple[str, str]:
    """Returns the tags around an example with the white space inside of them, if there are both."""
    if not (before["tag"] and after["tag"]):
        return "", ""
    return before["tag"] + _one_line(before["space"]), _one_line(after["space"]) + after["tag"]


def _names_tool(text: str) -> bool:
    return any(name in text for name in NAMES)


def _read_statements(prompt: str) -> Iterator[tuple[Format, str]]:
    for statement in _STATEMENT.finditer(prompt):
        call = _read_keys(statement["rest"])
        closers = find_tags(statement["rest"])
        is_about_calls = re.search("tool|function|call", statement.group(), re.IGNORECASE)
        is_about_results = re.search("resul|respon", statement.group(), re.IGNORECASE)
        if call is None or not is_about_calls or is_about_results:
            continue
        if len(closers) > 1 or any(not closer.startswith(("</", "[/")) for closer in closers):
            continue  # the purpose of the other tags is not known
        is_list = statement["shape"] in ("list", "array")
        format = _frame((call,), head=statement["tag"], tail="".join(closers), is_list=is_list)
        yield format, statement.group()


def _read_keys(sentence: str) -> JsonCall | None:
    """Returns the call with the keys that a sentence quotes; the usual ones if it quotes none; else
    None."""
    quoted = _QUOTED_WORD.findall(sentence)
    if not quoted:
        return JsonCall()
    names = [word for word in quoted if word in NAME_KEYS]
    arguments = [word for word in quoted if word in ARGUMENTS_KEYS]
    if len(quoted) != 2 or len(names) != 1 or len(arguments) != 1:
        return None
    return JsonCall(name_key=names[0], arguments_key=arguments[0])


def _read_python(example: re.Match[str], prompt: str) -> Format:
    """Returns a list of calls in Python. Strings have escapes: an example does not show raw
    ones."""
    head, tail = _join_tags(*_look_around(prompt, example))
    call = (Name(), Literal("("), KeywordArguments(quote=""), Literal(")"))
    format = _frame(call, head=head, tail=tail, is_list=True)
    return replace(format, between=example["between"] or ", ")


def _frame(call: tuple[Node, ...], *, head: str, tail: str, is_list: bool) -> Format:
    if is_list:
        opening = make_nodes(f"{head}[", opens=bool(head))
        return Format("stated", call, opening, make_nodes(f"]{tail}"), between=", ")
    if not head:
        return Format("stated", call, single=True)
    nodes = (*make_nodes(head, opens=True), *call, *make_nodes(tail))
    return Format("stated", nodes, between="\n")


def _one_line(space: str) -> str:
    """Returns white space without the indentation of the example."""
    return "\n" if "\n" in space else space
