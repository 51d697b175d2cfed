"""The objects that a schema admits as the arguments of a call in Python: what each value may look
like, which arguments may come next, and the shortest of both. It mirrors `lark_python`.
"""

from dataclasses import dataclass

from grammars.complete.scalar import join
from grammars.complete.shortest import Shortest
from grammars.schema.members import arrange, find_next
from grammars.schema.nodes import Node, Object
from grammars.spelling.languages import Language, Words, pick_shortest, speak_string
from grammars.spelling.python import Ends, find_extra_keys
from grammars.spelling.python_values import RAW, Kinds, sort_kinds
from grammars.spelling.styles import spell_scalar
from grammars.wire.format import PythonArguments


@dataclass(frozen=True)
class Argument:
    """An argument that can be written.

    Args:
        kinds: its values.
        texts: those of them that are raw strings, without quotes.
        shortest: the shortest of all; None if none is known.
    """

    key: str
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
        read = [(p, self._read(p.key, p.node)) for p in node.properties]
        kept = [(p, a) for p, a in read if a.kinds != Kinds((), (), ())]
        self.arguments = [argument for _, argument in kept]
        declared = [p.key for p in node.properties]
        keys = [(find_extra_keys(declared, e.keys), e.node) for e in node.extras]
        extras = [(k, self._read(k.extend("") or "", n)) for k, n in keys if not k.is_empty()]
        self.extras = [(k, a) for k, a in extras if a.kinds != Kinds((), (), ())]
        extra = bool(self.extras)
        self.members = arrange([p for p, _ in kept], extra, node.presence, shortest.order)
        self._rests: dict[int, str | None] = {}

    def _read(self, key: str, node: Node) -> Argument:
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
        return Argument(key, kinds, tuple(texts), best)

    def rest(self, state: int, *, first: bool = False) -> str | None:
        """The shortest rest; `first`: nothing stands before it."""
        if state not in self._rests:
            missing = self.members.find_missing(state, self._measure)
            parts = (
                None if missing is None else [join(self.hole.item, self._write(i)) for i in missing]
            )
            self._rests[state] = None if parts is None else join(*parts)
        rest = self._rests[state]
        return rest.removeprefix(self.hole.item) if first and rest else rest

    def another(self, state: int) -> str | None:
        """The shortest rest that begins with another argument, behind what separates two."""
        if not self.members.may_end(state):
            return self.rest(state, first=True)
        behind = find_next(self.members, state)
        return pick_shortest(join(self._write(i), self.rest(after)) for i, after in behind.items())

    def _measure(self, index: int | None) -> int | None:
        text = self._write(index)
        return None if text is None else len(self.hole.item + text)

    def _write(self, index: int | None) -> str | None:
        """The shortest argument: the declared one with that index, or an undeclared one."""
        options = [a for _, a in self.extras] if index is None else [self.arguments[index]]
        return pick_shortest(join(a.key, self.hole.after_key, a.shortest) for a in options)
