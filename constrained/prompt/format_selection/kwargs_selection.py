"""Selects the wire format by `chat_template_kwargs`: templates may write other calls, or open
another reasoning block, if a variable has another value."""

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any

from constrained.errors import RequestError, TemplateError
from constrained.prompt.format_selection.selection import SelectedFormat
from constrained.prompt.format_selection.template_facts import TurnStyle, find_facts
from constrained.prompt.template.chat_template import RESERVED, ChatTemplate
from constrained.prompt.template.rendering import DETECTION_SECONDS, limit_renderings
from grammars.infer.detection import Origin
from grammars.infer.probes import THOUGHT
from grammars.infer.reasoning import find_opener, find_state
from grammars.infer.text import find_tags, match_opener
from grammars.limits.packed_json import hash_json
from grammars.wire.format import Format, Reasoning

MAX_KEPT = 64
"""Selections by values, those that were used last."""
MAX_WORD = 64
"""Characters of a value that a template may compare."""


class FormatByKwargs:
    """The format of a template (`default`), and those that it writes if its variables have certain
    values."""

    def __init__(self, template: ChatTemplate, select: Callable[[ChatTemplate], SelectedFormat]):
        self._template, self._select = template, select
        self.default = select(template)
        self._kept: OrderedDict[bytes, SelectedFormat | RequestError] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, kwargs: Mapping[str, Any]) -> SelectedFormat:
        """Returns the selection for these variables. New values take a few renderings, or 0.4 s if
        turns are written in another way. RequestError: the prompt would show another format than
        the mask enforces."""
        key = self._name(kwargs)
        if key is None:
            return self.default
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
        if found is None:
            with limit_renderings(DETECTION_SECONDS):
                found = self._infer(self._list_read(kwargs))
            with self._lock:
                self._kept[key] = found
                if len(self._kept) > MAX_KEPT:
                    self._kept.popitem(last=False)
        if isinstance(found, RequestError):
            raise copy(found)  # each raise needs a traceback of its own
        return found

    def knows(self, kwargs: Mapping[str, Any]) -> bool:
        key = self._name(kwargs)
        return key is None or key in self._kept

    def refuses(self, kwargs: Mapping[str, Any]) -> bool:
        if self._template.refuses(kwargs):
            return True
        try:
            self.find(kwargs)
        except RequestError:
            return True
        return False

    def _list_read(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the values that the template may compare: lists and long texts are data."""
        read: dict[str, Any] = {}
        for name in sorted(kwargs.keys() & self._template.variables - {*RESERVED}):
            value = kwargs[name]
            is_word = isinstance(value, str) and len(value) <= MAX_WORD
            if is_word or value is None or isinstance(value, int | float):
                read[name] = value
        return read

    def _name(self, kwargs: Mapping[str, Any]) -> bytes | None:
        """Returns a key for the values that the template reads; None: there is none."""
        read = self._list_read(kwargs) if kwargs and isinstance(kwargs, Mapping) else {}
        return hash_json(read) if read else None

    def _infer(self, kwargs: Mapping[str, Any]) -> SelectedFormat | RequestError:
        bound = self._template.with_kwargs(kwargs)
        style = find_facts(bound).style
        if not style.head or self._is_usual(style):
            return self.default  # a template that refuses the values tells why when it is rendered
        try:
            own = self._select(bound)
        except (RequestError, TemplateError) as e:
            return self._refuse(kwargs, f"no tool format fits the template: {e.message}")
        if own.origin is Origin.GENERIC and self.default.origin is not Origin.GENERIC:
            return self._refuse(kwargs, "the template writes calls in no known format")
        if _has_other_tags(self._usual, style, own.format):
            reason = f"the prompt ends with an unknown tag: {style.prompt!r}"
            return self._refuse(kwargs, reason)
        if (own.format, own.origin) == (self.default.format, self.default.origin):
            return self.default
        # What a request gives is data, in which markers are cut; so nothing else may give it.
        return replace(own, template=own.template.without_kwargs().with_forms())

    @cached_property
    def _usual(self) -> TurnStyle:
        return find_facts(self._template).style

    def _refuse(self, kwargs: Mapping[str, Any], reason: str) -> RequestError:
        """Returns the error for these values; it names those that change turns alone."""
        causes: dict[str, Any] = {}
        for name, value in kwargs.items():
            if not self._is_usual(find_facts(self._template.with_kwargs({name: value})).style):
                causes[name] = value
        causes = causes or dict(kwargs)
        named = ", ".join(f"{name}={value!r}" for name, value in causes.items())
        where = "/chat_template_kwargs"
        if len(causes) == 1:
            where += f"/{next(iter(causes))}"
        hint = "Leave it out, or give another value"
        return RequestError(f"with {named}, {reason}", where=where, hint=hint)

    def _is_usual(self, style: TurnStyle) -> bool:
        """Returns whether turns are written and begun as without the values, but for the reasoning
        block, which the prompt may open or close."""
        usual, format = self._usual, self.default.format
        if self.default.origin is Origin.SHOWN and usual.head != style.head:
            return False
        turns = [_list_turns(each, format.reasoning) for each in (usual, style)]
        prompts = [_read_prompt(each, format) for each in (usual, style)]
        return turns[0] == turns[1] and prompts[0] == prompts[1]


def _list_turns(style: TurnStyle, block: Reasoning | None) -> Sequence[str]:
    if block is None:
        return style.turns
    opener, closer = match_opener(block.opener.text).pattern, re.escape(block.closer.text)
    thought = re.compile(rf"\s*(?:{opener})?\s*(?:{THOUGHT})?\s*{closer}\s*")
    return [thought.sub("", turn) for turn in style.turns]


def _read_prompt(style: TurnStyle, format: Format) -> str:
    """Returns the generation prompt without white space, its block, and the begun turn."""
    lead = find_state(style.prompt, "", format).lead
    prompt, block = style.prompt.removesuffix(lead), format.reasoning
    if block is not None:
        prompt = prompt.replace(find_opener(prompt, block).text, "")
        prompt = prompt.replace(block.closer.text, "")
    return "".join(prompt.split())


def _has_other_tags(usual: TurnStyle, style: TurnStyle, format: Format) -> bool:
    """Returns whether the prompt ends with a tag of neither the turns nor the format."""
    rest = _read_prompt(style, format)
    known = {*find_tags("\n".join((usual.prompt, *usual.turns, *style.turns)))}
    return any(tag not in known and rest.endswith(tag) for tag in find_tags(rest))
