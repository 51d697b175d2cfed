"""A chat template that caches its prompts, since the checks request half of all prompts twice."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from constrained.errors import TemplateError
from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.template.environment import read_frozen
from constrained.prompt.template.rendering import Renderer


class RememberedPrompts(ChatTemplate):
    """A chat template for one examination, during which only `freeze` changes the date.

    Args and attributes: as in `ChatTemplate`.
    """

    def __init__(self, source: str, **tokens: str):
        self._known: dict[str, str | TemplateError] | None = {}  # None: no cache
        super().__init__(source, **tokens)

    def with_forms(self) -> Self:
        other = super().with_forms()
        other._known = None if self._known is None else {}
        return other

    def rendered_by(self, renderer: Renderer) -> Self:
        other = super().rendered_by(renderer)
        other._known = None  # a traced render must run, since a cached prompt leaves no trace
        return other

    def _render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        kwargs: Mapping[str, Any],
        add_generation_prompt: bool,
    ) -> str:
        if self._known is None:
            return super()._render(messages, tools, kwargs, add_generation_prompt)
        # Not as JSON: 1, 1.0 and true have to differ, and so does the order of keys.
        key = repr((messages, tools, kwargs, add_generation_prompt, read_frozen()))
        known = self._known.get(key)
        if known is None:
            try:
                known = super()._render(messages, tools, kwargs, add_generation_prompt)
            except TemplateError as error:
                known = error
            self._known[key] = known
        if isinstance(known, TemplateError):
            raise known
        return known
