"""Compares texts that templates write, tag by tag and word by word, and makes nodes of them."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TypeVar

from grammars.errors import DetectError
from grammars.limits.steps import WRITTEN, spend
from grammars.wire.format import Fixed, Literal, Marker, Node, squeeze

N = TypeVar("N", bound=Node)

# `<tool_call>`, `<<call>>`; Mistral's `[TOOL_CALLS]`, `[[call]]`; LaTeX's `\begin{call}`.
TAG = r"<<[^<>\s]+>>|<[^<>\s]+>|\[\[/?\w+\]\]|\[/?[A-Z][A-Z_]+\]|\\(?:begin|end)\{\w+\}"
_TOKEN = re.compile(rf"{TAG}|\w+|.", re.DOTALL)
_SPACES = re.compile(r"\s+")
_NUMBER = re.compile(r"[0-9]+|.", re.DOTALL)
# What opens a call without a whole tag: `<function=`, `<|call:`, `<function name="`, `<call ` or
# `<call_` up to the name; a word with a sign, such as `functools[` (Firefunction) or `Action:`
# (Command R+), long enough to stand for itself; words up to a colon, `FUNCTION CALL:`, or that
# fill a line, `BEGIN CALLS`, or both in a heading, `### Tool call:`; a tag with attributes,
# `<code lang="ts">`, or up to the name, `<code lang="ts" fn="`, `<|assistant to=tool/`; `[CALL `,
# `[CALL id=`, `[[CALL `; the recipient of a message, `to=functions.`, or a variable that is set,
# `export TOOL=`; a word after a symbol beyond ASCII, which text parts from words, `▁Tool `; a run
# such as `>>>` (Functionary 3.2), with the word after it, for "```" opens other text as well; a
# word between signs, `[[call]]`. A word that but a blank or a sign of prose closes, `Call` or
# `tool(`, could stand in any answer.
_OPENERS = (
    r"<[^<>\s=:]+(?:[=:_]|\s(?:[\w-]+=[\"']?)?)$",
    r"<\w[^<>\s=]*(?:\s+[\w-]+=\"[^<>\"]*\")+>",
    r"[^\W\d_]\w{3,}(?:\s?[:：]|[^\w\s=.,;!?'\"(){}/-])",
    r"[^\W\d_]\w{3,}(?: \w+){1,2} ?[:：]",
    r"[^\W\d_]\w{3,}(?: \w+)+\n",
    r"#{1,6} [^\W\d_]\w{2,}(?: \w+)*(?:\s?[:：]|\n)",
    r"<\W?\w{2,}(?:\s+[\w-]+=(?:\"[^\"<>]*\"|'[^'<>]*'|[^\s\"'<>]+))*\s+[\w-]+=[\"']?(?:[\w-]+[./:])*$",
    r"\[[A-Z][A-Z_]{2,}[ :=][\"']?$|\[\w+ [\w-]+=[\"']?$|(?:\[\[|<<)\w{3,}[ :=]$",
    r"(?:[^\W\d_]\w{2,} ){0,2}[^\W\d_]\w+=(?:\w+[.:/])?$",
    r"[\u2190-\u2bff\ue000-\uf8ff]+[^\W\d_]\w{2,}[ :=]",
    r"([^\w\s\"'{}\[\]()])\1{2,}\w*",
    r"[^\w\s\"'{}]{1,4}[^\W\d_]\w+[^\w\s\"'{}]{1,4}",
)

# Words and all up to a tag: `call to=`, `call", "tool": "`.
_WORDS = re.compile(r"[^\W\d_]\w{2,}[^<>\n]+")

_EFFORTS = "none|minimal|low|medium|high|xhigh|max|auto|on|off|true|false"
# The effort or the budget of a thought, in the tag that opens it: `<think effort="low">`,
# `<budget:512>`, `<|think_low|>`. After a low line, a number is more likely a part of a name.
_LEVEL = (
    rf"(?:(?<=[=:])[\"']?(?i:\d+(?:\.\d+)?|{_EFFORTS})[\"']?|(?<=[_-])(?i:{_EFFORTS}))"
    r"(?=[\s>\]|])"
)


def match_opener(opener: str) -> re.Pattern[str]:
    """Returns a pattern for what opens a block. A level of effort or a number in a tag may
    differ."""
    fixed = re.split(_LEVEL, opener)
    if len(fixed) == 1 or not re.fullmatch(r"<[^<>]+>|\[[^\[\]]+\]", opener):
        return re.compile(re.escape(opener))
    return re.compile(_LEVEL.join(map(re.escape, fixed)))


def fold_marks(text: str) -> str:
    """Returns the text with a letter in place of each mark that belongs to a letter, as the vowels
    of Hindi do: `re` knows no such part of a word."""
    if text.isascii():
        return text
    return "".join("a" if unicodedata.category(c) in ("Mn", "Mc") else c for c in text)


def tokenise(text: str) -> list[str]:
    return [text[slice(*token.span())] for token in _TOKEN.finditer(fold_marks(text))]


def split_numbers(text: str) -> list[str]:
    return _NUMBER.findall(text)


def drop_numbers(text: str) -> str:
    return re.sub("[0-9]+", "", text)


def common_prefix(*texts: str) -> str:
    """Returns the longest common beginning of all texts, in whole tokens."""
    return "".join(_common([tokenise(text) for text in texts]))


def common_suffix(*texts: str) -> str:
    """Returns the longest common ending of all texts, in whole tokens."""
    return "".join(reversed(_common([tokenise(text)[::-1] for text in texts])))


def _common(rows: Sequence[Sequence[str]]) -> list[str]:
    common: list[str] = []
    for column in zip(*rows, strict=False):
        if len(set(column)) > 1:
            break
        common.append(column[0])
    return common


def skip_words(text: str, head: str) -> str | None:
    """Returns the rest of a text that begins with another one, but for white space between signs;
    or None."""
    spend(1 + len(head) // WRITTEN)
    end = 0
    for sign in squeeze(head):
        spaces = _SPACES.match(text, end)
        end = end if spaces is None else spaces.end()
        if not text.startswith(sign, end):
            return None
        end += 1
    return text[end:]


def leading_space(text: str) -> str:
    return text[: len(text) - len(text.lstrip())]


def find_tag(text: str) -> re.Match[str] | None:
    """Returns the first complete tag of a text."""
    return re.search(TAG, text)


def find_tags(text: str) -> list[str]:
    return re.findall(TAG, text)


def find_loose(*texts: str) -> frozenset[str]:
    """Returns the names of tags that contain more than their name, as in `<function=NAME>`. Their
    closing tags are no markers, because vocabularies have no tokens for such tags."""
    names: set[str] = set()
    for text in texts:
        names.update(re.findall(r"<([^<>\s=/]+)(?:=|\s)", text))
    return frozenset(names)


def merge_literals(nodes: Iterable[N]) -> tuple[N | Literal, ...]:
    """Returns the nodes with adjacent literals joined and empty fixed texts removed."""
    merged: list[N | Literal] = []
    for node in nodes:
        last = merged[-1] if merged else None
        if isinstance(node, Literal) and isinstance(last, Literal):
            merged[-1] = Literal(last.text + node.text)
        elif not isinstance(node, Literal | Marker) or node.text:
            merged.append(node)
    return tuple(merged)


def make_nodes(
    text: str, loose: Iterable[str] = (), *, opens: bool = False, opens_part: bool = False
) -> tuple[Fixed, ...]:
    """Makes nodes of fixed text: tags become markers, except the closers of `loose` names;
    everything else becomes literals. `opens`: a call begins with this text, so its first node is a
    marker; raises a `DetectError` if none could be one. `opens_part`: it follows the header of a
    message, and what is no call has another text there: any words are a marker."""
    nodes: list[Fixed] = []
    if opens and not re.match(TAG, text):
        opener = _read_opener(text, opens_part=opens_part)
        nodes.append(Marker(opener))
        text = text.removeprefix(opener)
    closers = {f"</{name}>" for name in loose}
    for i, part in enumerate(re.split(f"({TAG})", text)):
        is_tag = i % 2 == 1  # `re.split` returns what the group has matched at odd places
        if is_tag and part not in closers:
            nodes.append(Marker(part))
        else:
            nodes.append(Literal(part))
    return merge_literals(nodes)


def _read_opener(text: str, *, opens_part: bool) -> str:
    for pattern in _OPENERS:
        if opener := re.match(pattern, fold_marks(text)):
            return text[: opener.end()]
    if opens_part and (opener := _WORDS.match(fold_marks(text))):
        return text[: opener.end()]
    raise DetectError(f"no tag opens a call: it begins with {text[:20]!r}")
