"""A chat template that caches its prompts, since the checks request half of all prompts twice."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from constrained.errors import TemplateError
from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.template.environment import read_frozen


class RememberedPrompts(ChatTemplate):
    """A chat template for one examination, during which only `freeze` changes the date.

    Args and attributes: as in `ChatTemplate`.
    """

    def __init__(self, source: str, **tokens: str):
        self._known: dict[str, str | TemplateError] = {}
        super().__init__(source, **tokens)

    def with_forms(self) -> Self:
        other = super().with_forms()
        other._known = {}
        return other

    def _render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        kwargs: Mapping[str, Any],
        add_generation_prompt: bool,
    ) -> str:
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
