"""A tokenizer that has what parsers ask of one: a token for each special text of a format, and one
for each other character."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

_END = 0
"""The id of the token that ends a turn; it has no text."""
_FIRST = 1000
"""The id of the first character that is no special token."""
_SPECIAL = re.compile(
    r"\]<\]minimax\[>\["  # in which there are brackets
    r"|｜DSML｜"  # in tags that are no tokens themselves
    r"|<\|\"\|>"
    r"|</?[^<>\s\"=｜]+>|<｜[^<>\s｜]+｜>"
    r"|\[/?[A-Z_]{3,}\]"
)


def find_special(texts: Iterable[str]) -> list[str]:
    """Returns the special tokens in the tags of a format."""
    found: dict[str, None] = {}
    for text in texts:
        found.update(dict.fromkeys(_SPECIAL.findall(text)))
    return list(found)


class AskedTokens(dict[str, int]):
    """A vocabulary that remembers what was looked for and is not there."""

    def __init__(self, ids: dict[str, int]):
        super().__init__(ids)
        self.missing: list[str] = []

    def __contains__(self, key: object) -> bool:
        found = super().__contains__(key)
        if not found:
            self.missing.append(str(key))
        return found

    def get(self, key: str, default: Any = None) -> Any:
        if key in self:  # notes what is missing
            return super().get(key)
        return default

    def __missing__(self, key: str) -> int:
        self.missing.append(key)
        raise KeyError(key)


class StubTokenizer:
    """A tokenizer with these special tokens."""

    def __init__(self, special: Sequence[str]):
        self.tokens = list(special)
        self._ids = {text: i for i, text in enumerate(special, 1)}
        self._asked = AskedTokens(self._ids)
        longest_first = sorted(special, key=len, reverse=True)
        self._split = re.compile("|".join([*map(re.escape, longest_first), r"(?s:.)"]))
        # Tags are tokens of their own, but no "special" ones, which decoding may leave out.
        self.all_special_tokens: list[str] = []
        self.all_special_ids: list[int] = []
        self.end = [_END]
        """The ids that end a turn."""

    @property
    def missing(self) -> Sequence[str]:
        """Tokens that a parser has looked for, and that are not there."""
        return self._asked.missing

    def get_vocab(self) -> dict[str, int]:
        return self._asked

    def encode(self, text: str, *_: Any, **__: Any) -> list[int]:
        return [self._find(token) for token in self._split.findall(text)]

    def decode(self, ids: Sequence[int] | int, *_: Any, **__: Any) -> str:
        some = [ids] if isinstance(ids, int) else ids
        return "".join(map(self._spell, some))

    def convert_tokens_to_ids(self, tokens: str | Sequence[str]) -> Any:
        """Returns the id of a token, or those of several; None: there is no such token."""
        if isinstance(tokens, str):
            return self._find(tokens) if len(tokens) == 1 else self._ids.get(tokens)
        return [self.convert_tokens_to_ids(token) for token in tokens]

    def move_cuts(self, chunks: Sequence[str]) -> list[str]:
        """Returns the chunks as whole tokens: none is empty, and none ends inside of a special
        token."""
        wanted: set[int] = set()
        end = 0
        for chunk in chunks:
            end += len(chunk)
            wanted.add(end)
        moved: list[str] = []
        held, end, due = "", 0, False
        for token in self._split.findall("".join(chunks)):
            due = due or any(end < cut <= end + len(token) for cut in wanted)
            held, end = held + token, end + len(token)
            if due:
                moved.append(held)
                held, due = "", False
        return moved

    def _find(self, token: str) -> int:
        return self._ids.get(token, _FIRST + ord(token[0]))

    def _spell(self, id: int) -> str:
        if id == _END:
            return ""
        return chr(id - _FIRST) if id >= _FIRST else self.tokens[id - 1]


class HarmonyTokenizer(StubTokenizer):
    """The same with the ids of gpt-oss, whose parser reads these. Its vocabulary is downloaded, if
    `TIKTOKEN_RS_CACHE_DIR` names no folder with it."""

    def __init__(self, special: Sequence[str]):
        import openai_harmony  # pyright: ignore[reportMissingImports]  of its server

        tokens = dict.fromkeys(special) | dict.fromkeys(("<|call|>", "<|return|>"))
        super().__init__(list(tokens))
        self._encoding = openai_harmony.load_harmony_encoding("HarmonyGptOss")
        self.end = []  # several tokens end a turn; its parser ends without one

    def encode(self, text: str, *_: Any, **__: Any) -> list[int]:
        ids: list[int] = []
        for token in self._split.findall(text):
            ids += self._encoding.encode(token, allowed_special="all")
        return ids

    def decode(self, ids: Sequence[int] | int, *_: Any, **__: Any) -> str:
        return self._encoding.decode([ids] if isinstance(ids, int) else ids)
