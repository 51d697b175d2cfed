"""Traced chat templates: they record how a prompt was rendered.

A traced template renders the same text as the plain one. It records the branch taken at each
condition, the value of each variable, and the place in the template that wrote each piece of the
text. Two such records show why two prompts differ.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from constrained.errors import TemplateError
from constrained.inspect.template_trace.traced_code import (
    Assigned,
    Chosen,
    Event,
    Passes,
    Site,
    WrittenPiece,
    list_sites,
)
from constrained.limits.kept_process import KeptProcesses
from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.template.environment import read_frozen
from constrained.prompt.template.rendering import Renderer

_PROCESSES = KeptProcesses("constrained.inspect.template_trace.tracing_process")


@dataclass(frozen=True)
class Trace:
    """A prompt, with the record of its render.

    Args:
        text: the prompt.
        sites: the sites of the template.
        pieces: of the text, in order.
        choices: the branches that were taken, in order.
        assignments: by the name of the variable, in order.
    """

    text: str
    sites: Sequence[Site]
    pieces: Sequence[WrittenPiece]
    choices: Sequence[Chosen]
    assignments: Mapping[str, Sequence[Assigned]]

    def find_piece(self, offset: int) -> WrittenPiece | None:
        """Returns the piece with the character at this offset; None if the text is shorter."""
        place = bisect_right(self.pieces, offset, key=lambda piece: piece.end)
        return self.pieces[place] if place < len(self.pieces) else None

    def find_branch(self, site: int, passes: Passes, before: int) -> int | None:
        """Returns the branch that a condition took in these passes, the last time before an event;
        None: it was not reached."""
        for choice in reversed(self.choices):
            if choice.done <= before and (choice.site, choice.passes) == (site, passes):
                return choice.branch
        return None

    def find_assignment(self, name: str, before: int) -> Assigned | None:
        """Returns the last assignment of a variable before an event; None: there is none."""
        for event in reversed(self.assignments.get(name, ())):
            if event.done <= before:
                return event
        return None

    def list_choices(self, event: Event) -> list[Chosen]:
        """Lists the branches that were taken during an event, also in macros."""
        return [choice for choice in self.choices if event.begun <= choice.done <= event.done]


class TracedTemplate:
    """A chat template whose renders are recorded.

    Args:
        template: of any kind; it is not changed.
    """

    def __init__(self, template: ChatTemplate):
        self._renderer = Renderer(template.source, _PROCESSES)
        self._template = template.rendered_by(self._renderer)
        self._sites = list_sites(template.source)
        self._known: dict[str, Trace | None] = {}

    def try_trace(self, *args: Any, **kwargs: Any) -> Trace | None:
        """Like `trace`, and remembers the record; None: the template refuses this, or it takes too
        much work."""
        key = repr((args, kwargs, read_frozen()))
        if key not in self._known:
            try:
                self._known[key] = self.trace(*args, **kwargs)
            except TemplateError:
                self._known[key] = None
        return self._known[key]

    def trace(self, *args: Any, **kwargs: Any) -> Trace:
        """Renders the template as `render` does, with the same errors, and returns the record."""
        text = self._template.render(*args, **kwargs)
        record = self._renderer.record
        return Trace(
            text,
            self._sites,
            pieces=[WrittenPiece(*_read_event(event)) for event in record["pieces"]],
            choices=[Chosen(*_read_event(event)) for event in record["choices"]],
            assignments={
                name: [Assigned(*_read_event(event)) for event in events]
                for name, events in record["assignments"].items()
            },
        )


def _read_event(values: Sequence[Any]) -> Sequence[Any]:
    """Returns the fields of an event, whose passes have become an array in JSON."""
    site, passes, *others = values
    return site, tuple(passes), *others
