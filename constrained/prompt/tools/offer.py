"""The tools of one request: those that are offered, and those that are refused.

One bad tool does not break the others. A tool whose schema cannot be enforced is left out of the
prompt and of the grammar, and the reply names it. A tool that is there twice counts once. These are
errors: a value that is no tool, two different tools with one name, an offer without any usable
tool, and a tool choice that names a refused tool.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from constrained.prompt.cache_scope import COMMON
from constrained.prompt.tools.reports import explain_refusal
from constrained.prompt.tools.shapes import Entry, drop_copies, loosen_tool, read_entries
from grammars.errors import Error, SchemaError
from grammars.schema.json_values import Json
from grammars.turn import Policy, Tool

HIDDEN = "/hidden_tools"


@dataclass(frozen=True)
class Refusal:
    """A tool that is not offered.

    Args:
        name: of the tool.
        error: what is wrong, its JSON pointer, and what to do.
    """

    name: str
    error: Error

    def to_json(self) -> dict[str, Json]:
        return {"name": self.name, **explain_refusal(self.error), "reason": self.reason}

    def __str__(self) -> str:
        text = f"tool {self.name!r} is not offered"
        if self.error.where is not None:
            text += f", {self.error.where or 'the root'}"
        text += f": {self.reason}"
        if self.error.hint:
            text += f". {self.error.hint}"
        return text

    @property
    def reason(self) -> str:
        return self.error.message.removeprefix(f"tool {self.name!r}: ")


@dataclass(frozen=True)
class Offered:
    """An offered tool; `is_loose`: the mask enforces only the shape of its schema."""

    entry: Entry
    tool: Tool
    is_loose: bool = False


@dataclass(frozen=True)
class Offer:
    kept: tuple[Offered, ...] = ()
    refused: tuple[Refusal, ...] = ()

    @property
    def shown(self) -> list[Mapping[str, Any]]:
        """The tools of the prompt, in OpenAI's form; messages describe the hidden ones."""
        entries = [offered.entry for offered in self.kept]
        return [entry.shown for entry in entries if not entry.place.startswith(HIDDEN)]

    @property
    def tools(self) -> tuple[Tool, ...]:
        return tuple(offered.tool for offered in self.kept)

    @property
    def repeatable(self) -> frozenset[str]:
        entries = [offered.entry for offered in self.kept]
        return frozenset(entry.name for entry in entries if entry.repeatable)

    @property
    def names(self) -> tuple[str, ...]:
        kept = [offered.tool.name for offered in self.kept]
        return (*kept, *(refusal.name for refusal in self.refused))

    def loosen(self, name: str) -> "Offer | None":
        """Returns the offer with a looser mask for one tool; None: it is as loose as can be."""
        for place, offered in enumerate(self.kept):
            if offered.tool.name == name and offered.tool.strict and not offered.is_loose:
                loose = replace(offered, tool=loosen_tool(offered.tool), is_loose=True)
                return replace(self, kept=(*self.kept[:place], loose, *self.kept[place + 1 :]))
        return None

    def without(self, refusal: Refusal) -> "Offer":
        """Returns the offer without this tool; raises the error of the refusal if none is left."""
        kept = tuple(offered for offered in self.kept if offered.tool.name != refusal.name)
        if not kept:
            raise refusal.error
        return Offer(kept, (*self.refused, refusal))

    def fit(self, policy: Policy) -> Policy:
        """Returns the policy without the refused tools; raises the error of one if it names no
        other."""
        if policy.names is None:
            return policy
        refused = {refusal.name: refusal.error for refusal in self.refused}
        names = tuple(name for name in policy.names if name not in refused)
        if policy.names and not names:
            raise refused[policy.names[0]]
        return replace(policy, names=names)


def read_offer(
    given: Any,
    *,
    hidden: Any = (),
    drop: bool = True,
    nonempty: bool = False,
    room: int | None = None,
    scope: str = COMMON,
) -> Offer:
    """Reads the tools of a request. `hidden`: those that are not in the prompt; `room`: characters
    of the context, None: any number; `nonempty`: a required string has a character. ToolError: it
    is no list of tools, or a name is there twice. SchemaError: no schema can be enforced, or one
    and not `drop`."""
    kept: list[Offered] = []
    refused: list[Refusal] = []
    entries = [*read_entries(given), *read_entries(hidden, HIDDEN)]
    for entry in drop_copies(entries):
        try:
            tool = entry.lower(nonempty=nonempty, scope=scope)
            entry.check_length(tool.schema, room)
        except SchemaError as e:
            if not drop:
                raise
            refused.append(Refusal(entry.name, e))
        else:
            kept.append(Offered(entry, tool))
    if refused and not kept:
        raise refused[0].error
    return Offer(tuple(kept), tuple(refused))
