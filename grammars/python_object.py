"""The objects that a schema admits as the arguments of a call in Python: what each value may look
like, which arguments may come next, and the shortest of both. It mirrors `lark_python`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from string import ascii_lowercase

from grammars.complete_scalar import join
from grammars.languages import Language, Words, pick_shortest, speak_string
from grammars.python_ends import Ends
from grammars.python_values import RAW, Kinds, sort_kinds
from grammars.schema import Node, Object
from grammars.shortest import Shortest
from grammars.spelling import spell_scalar
from grammars.wire import PythonArguments


@dataclass(frozen=True)
class Argument:
    """An argument that can be written.

    Args:
        kinds: its values.
        texts: those of them that are raw strings, without quotes.
        shortest: the shortest of all; None if none is known.
    """

    key: str
    required: bool
    kinds: Kinds
    texts: tuple[Language, ...]
    shortest: str | None


class PythonObject:
    """One of the objects that a schema admits.

    Args:
        ends: what ends a raw string.
    """

    def __init__(self, node: Object, hole: PythonArguments, ends: Ends, shortest: Shortest):
        self.hole, self.ends = hole, ends
        self._shortest = shortest
        read = (self._read(p.key, p.node, p.required) for p in node.properties)
        self.arguments = [a for a in read if a.kinds != Kinds((), (), ())]
        self.declared = frozenset(p.key for p in node.properties)
        self.extra = None
        if node.additional is not None:
            self.extra = self._read(self.extend_key(""), node.additional, required=False)
        self._rests: dict[int, str | None] = {}

    def _read(self, key: str, node: Node, required: bool) -> Argument:
        kinds = sort_kinds(node, self._shortest.definitions)
        words = tuple(word for word in kinds.words if self.ends.holds(word, RAW))
        texts: list[Language] = [*map(speak_string, kinds.strings)]
        texts += [Words(words)] if words else []
        raws = (text.extend("") for text in texts)
        options = [RAW + r + RAW for r in raws if r is not None and self.ends.holds(r, RAW)]
        escaped = (s for word in kinds.words for s in spell_scalar(word, self.hole.style))
        others = map(self._shortest.value, kinds.others)
        best = pick_shortest([*options, *others]) or pick_shortest(
            s for s in escaped if not s.startswith(RAW)
        )
        return Argument(key, required, kinds, tuple(texts), best)

    def reach(self, index: int) -> Iterator[tuple[Argument, int]]:
        """The declared arguments that may come next, and what comes behind each."""
        for i in range(index, len(self.arguments)):
            yield self.arguments[i], i + 1
            if self.arguments[i].required:
                return

    def may_end(self, index: int) -> bool:
        """Is none missing that is required?"""
        return not any(a.required for a in self.arguments[index:])

    def rest(self, index: int, *, first: bool = False) -> str | None:
        """The shortest rest; `first`: nothing stands before it."""
        if self.may_end(index):
            return ""
        return join("" if first else self.hole.item, self.another(index))

    def another(self, index: int) -> str | None:
        """The shortest rest that begins with another argument, behind what separates two."""
        if index not in self._rests:
            for i in reversed(range(index, len(self.arguments) + 1)):
                options = [self._write(argument, behind) for argument, behind in self.reach(i)]
                if self.extra is not None and self.may_end(i):
                    options.append(self._write(self.extra, len(self.arguments)))
                self._rests[i] = pick_shortest(options)
        return self._rests[index]

    def _write(self, argument: Argument, behind: int) -> str | None:
        head = argument.key + self.hole.after_key
        return join(head, argument.shortest, self.rest(behind))

    def extend_key(self, written: str) -> str:
        """The shortest end of an undeclared key."""
        ends = (first + "a" * n for n in count() for first in ("", *ascii_lowercase))
        return next(end for end in ends if written + end not in self.declared | {""})
