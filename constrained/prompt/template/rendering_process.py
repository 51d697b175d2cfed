"""Renders chat templates; the main module of the process in which they run."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from jinja2 import meta

from constrained.limits.answering import answer_questions
from constrained.limits.process_limits import MIB
from constrained.prompt.template.environment import (
    FAILURES,
    explain_failure,
    freeze,
    make_environment,
)
from constrained.prompt.template.traced_code import TracedCode

MEMORY = 96 * MIB  # 4 MiB take 24; 64 if an emoji makes all characters 4 bytes wide
MAX_KEPT = 1_000_000  # characters of the templates that stay compiled


class _Compiled(NamedTuple):
    """A compiled template.

    Attributes:
        variables: the names that it reads.
        render: returns the answer for these variables.
        size: the characters of its source.
    """

    variables: list[str]
    render: Callable[[Mapping[str, Any]], dict[str, Any]]
    size: int


_kept: OrderedDict[tuple[str, bool], _Compiled] = OrderedDict()


def answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """Answers one question.

    Args:
        question: `{name, source, is_traced, variables, now}`. `name` is that of a template; if
            `source` is null, it was sent before. Without `variables`, it is only compiled. `now`
            is what the template sees as the time.

    Returns:
        `{text}`, with `record` if it is traced; `{variables}` that the template reads;
        `{failure}` as `TemplateFailure` has it; or `{}` if the source has to be sent again.
    """
    try:
        compiled = _find(question["name"], question["source"], is_traced=question["is_traced"])
        if compiled is None:
            return {}
        if question["variables"] is None:
            return {"variables": compiled.variables}
        now = question["now"]
        with freeze(None if now is None else datetime.fromisoformat(now)):
            return compiled.render(question["variables"])
    except FAILURES as error:
        return {"failure": explain_failure(error)}


def _find(name: str, source: str | None, *, is_traced: bool) -> _Compiled | None:
    """Returns a compiled template; None: its source is needed."""
    key = name, is_traced
    compiled = _kept.get(key)
    if compiled is None and source is not None:
        compiled = _compile(source, is_traced=is_traced)
        _kept[key] = compiled
        while len(_kept) > 1 and sum(kept.size for kept in _kept.values()) > MAX_KEPT:
            _kept.popitem(last=False)
    if compiled is not None:
        _kept.move_to_end(key)
    return compiled


def _compile(source: str, *, is_traced: bool) -> _Compiled:
    if is_traced:
        return _Compiled([], TracedCode(source).render, len(source))
    environment = make_environment()
    template = environment.from_string(source)
    variables = sorted(meta.find_undeclared_variables(environment.parse(source)))

    def render(variables: Mapping[str, Any]) -> dict[str, Any]:
        return {"text": template.render(variables)}

    return _Compiled(variables, render, len(source))


def main() -> None:
    answer_questions(answer, MEMORY)
