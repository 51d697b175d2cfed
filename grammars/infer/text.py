"""Texts that templates write, compared tag by tag, word by word; and made into nodes."""

import re
from collections.abc import Iterable, Sequence

from grammars.errors import DetectError
from grammars.wire.format import Fixed, Literal, Marker

_TAG = r"<[^<>\s]+>|\[/?[A-Z][A-Z_]+\]"
_TOKEN = re.compile(rf"{_TAG}|\w+|.", re.DOTALL)
# What opens a call without a whole tag: `<function=`, `<function name="` up to the name; a word
# such as `functools` or `Action:`, long enough to stand for itself; a run such as `>>>`.
_OPENERS = (
    r"<[^<>\s=]+(?:=|\s[\w-]+=[\"']?)$",
    r"[^\W\d_]\w{3,}(?::|(?![\w=.]))",
    r"([^\w\s\"'{}\[\]()])\1{2,}",
)


def tokenise(text: str) -> list[str]:
    """Tags, words and single characters."""
    return [match[0] for match in _TOKEN.finditer(text)]


def common_prefix(*texts: str) -> str:
    """What all texts begin with, in whole tokens."""
    return "".join(_common([tokenise(text) for text in texts]))


def common_suffix(*texts: str) -> str:
    """What all texts end with, in whole tokens."""
    return "".join(reversed(_common([tokenise(text)[::-1] for text in texts])))


def _common(rows: Sequence[Sequence[str]]) -> list[str]:
    common: list[str] = []
    for column in zip(*rows, strict=False):
        if len(set(column)) > 1:
            break
        common.append(column[0])
    return common


def find_tag(text: str) -> re.Match[str] | None:
    """The first whole tag."""
    return re.search(_TAG, text)


def find_loose(*texts: str) -> frozenset[str]:
    """Names of tags that hold more than their name: the closers of those are no markers, for the
    vocabulary has no token for what it cannot write in one piece."""
    names = (name for text in texts for name in re.findall(r"<([^<>\s=/]+)(?:=|\s)", text))
    return frozenset(names)


def make_nodes(text: str, loose: Iterable[str] = (), *, opens: bool = False) -> tuple[Fixed, ...]:
    """Tags are markers, all else is literal.

    Args:
        text: fixed text.
        loose: names of tags whose closers are literal.
        opens: a call begins with this text, so its first node is a marker.

    Raises:
        DetectError: nothing in front could be a marker.
    """
    nodes: list[Fixed] = []
    if opens and not re.match(_TAG, text):
        opener = next((m for o in _OPENERS if (m := re.match(o, text))), None)
        if opener is None:
            raise DetectError(f"no tag opens a call: it begins with {text[:20]!r}")
        nodes, text = [Marker(opener[0])], text[opener.end() :]
    closers = {f"</{name}>" for name in loose}
    for i, part in enumerate(re.split(f"({_TAG})", text)):
        is_marker = i % 2 == 1 and part not in closers
        if is_marker:
            nodes.append(Marker(part))
        elif part and nodes and isinstance(nodes[-1], Literal):
            nodes[-1] = Literal(nodes[-1].text + part)
        elif part:
            nodes.append(Literal(part))
    return tuple(nodes)
