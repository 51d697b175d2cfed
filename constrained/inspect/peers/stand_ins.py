"""What stands in for the engines of other projects: inert packages, a tokenizer, open prompts.

Inert packages do nothing. They are in the place of heavy ones that a parser's module imports and a
parser does not use: PyTorch, CUDA, the engine itself. The tokenizer has a token for each special
text of a format, and one for each other character.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any


class Inert:
    """An object that can be called, subclassed, and used as a decorator or in an annotation."""

    def __init__(self, *_: Any, **__: Any):
        pass

    def __getattr__(self, name: str) -> Any:
        return find_inert(name)

    def __call__(self, *args: Any, **_: Any) -> Any:
        # A decorator gets a function here.
        return args[0] if len(args) == 1 and callable(args[0]) else Inert()

    def __getitem__(self, _: Any) -> Any:
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __or__(self, other: Any) -> Any:
        return other

    def __ror__(self, other: Any) -> Any:
        return other

    def __mro_entries__(self, _: Any) -> tuple[type, ...]:
        return ()

    def __instancecheck__(self, _: Any) -> bool:
        return False

    def __get_pydantic_core_schema__(self, *_: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.any_schema()


def find_inert(name: str) -> Any:
    """Returns an inert object, but no special method: others look whether these are there."""
    if name.startswith("__"):
        raise AttributeError(name)
    return Inert()


class InertModule(ModuleType):
    """A module in which every name is there."""

    __version__ = "0.0.0"

    def __getattr__(self, name: str) -> Any:
        return find_inert(name)


class SkippedInit(ModuleType):
    """A package without its `__init__`: it has its modules, and other names are inert."""

    def __getattr__(self, name: str) -> Any:
        inert = find_inert(name)
        path = f"{self.__name__}.{name}"
        try:
            return import_module(path)
        except ModuleNotFoundError as e:
            if e.name != path:
                raise
            return inert


class InertFinder(MetaPathFinder, Loader):
    """Finds modules of packages that are not installed."""

    def __init__(self, names: Sequence[str]):
        self._names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns a package that has every name and every module."""
        for name in self._names:
            if fullname == name or fullname.startswith(f"{name}."):
                return ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return InertModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Runs nothing."""


def supply_inert(names: Sequence[str]) -> None:
    """Puts inert packages in the place of those that are not installed."""
    # At the end: what is installed is found before.
    sys.meta_path.append(InertFinder(names))


def replace_by_inert(names: Sequence[str]) -> None:
    """Puts inert modules in the place of installed ones, which load the engine."""
    sys.meta_path.insert(0, InertFinder(names))


def skip_inits(*names: str) -> None:
    """Leaves out the `__init__` of packages; their modules can be imported all the same. Raises
    ModuleNotFoundError if the first of the packages is not there."""
    for name in names:
        parent, _, last = name.rpartition(".")
        if parent:
            paths = [str(Path(path) / last) for path in sys.modules[parent].__path__]
        else:
            spec = find_spec(name)
            if spec is None or spec.submodule_search_locations is None:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
            paths = list(spec.submodule_search_locations)
        module = SkippedInit(name)
        module.__path__ = paths
        module.__spec__ = ModuleSpec(name, None, is_package=True)
        sys.modules[name] = module


THINKING = {"enable_thinking": True, "reasoning_effort": "high", "thinking": True}
"""Variables by which chat templates let a model think."""
_PROBE = "zorn"


@dataclass(frozen=True)
class OpenPrompt:
    """What the prompt ends with.

    The opener is part of the prompt, so it is left out of each text. A text without one gets the
    closer instead: the model has thought nothing.
    """

    opener: str = ""  # the tags of a reasoning block; "", both: the prompt opens none
    closer: str = ""

    def begin(self, text: str) -> str:
        """Returns what the model writes after the prompt."""
        start = text.lstrip()
        if start.startswith(self.opener):
            return start.removeprefix(self.opener) if self.opener else text
        return self.closer + text

    def fit(self, chunks: Sequence[str]) -> list[str]:
        """Returns the chunks of what the model writes, cut in the same places."""
        text = "".join(chunks)
        written = self.begin(text)
        left_out = len(text) - len(written)
        cuts = [0]
        end = 0
        for chunk in chunks[:-1]:
            end += len(chunk)
            cuts.append(min(max(end - left_out, 0), len(written)))
        return [written[a:b] for a, b in zip(cuts, [*cuts[1:], len(written)], strict=True)]


def find_open_prompt(
    read: Callable[[str], str | None], opener: str, closer: str, *, markers: Sequence[str]
) -> OpenPrompt:
    """Returns whether a parser expects that the prompt has opened a block: it takes text without an
    opener for reasoning.

    Args:
        read: returns the reasoning of a whole text.
        markers: the tags of the format. An opener that is only the start of one (Gemma 4 has a word
            after it) is not told from text before a closer.
    """
    is_part = any(text != opener and text.startswith(opener) for text in markers)
    for text in (_PROBE,) if is_part else (_PROBE, _PROBE + closer):
        with suppress(Exception):
            if read(text) == _PROBE:
                return OpenPrompt(opener, closer)
    return OpenPrompt()


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
