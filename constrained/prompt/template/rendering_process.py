"""Renders chat templates; the main module of the process in which they run."""

from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from jinja2 import Template, meta

from constrained.limits.answering import answer_questions
from constrained.limits.process_limits import MIB
from constrained.prompt.template.environment import (
    FAILURES,
    explain_failure,
    freeze,
    make_environment,
)

MEMORY = 96 * MIB  # 4 MiB take 24; 64 if an emoji makes all characters 4 bytes wide
MAX_KEPT = 1_000_000  # characters of the templates that stay compiled


class CompiledTemplate(NamedTuple):
    variables: list[str]
    template: Template
    size: int


_kept: OrderedDict[str, CompiledTemplate] = OrderedDict()


def answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """Answers one question, `{name, source, variables, now}`. If `source` is null, it was sent
    before; without `variables`, it is only compiled. The answer is `{text}`, `{variables}`,
    `{failure}` as `TemplateFailure` has it, or `{}` if the source has to be sent again."""
    try:
        compiled = _find(question["name"], question["source"])
        if compiled is None:
            return {}
        if question["variables"] is None:
            return {"variables": compiled.variables}
        now = question["now"]
        with freeze(None if now is None else datetime.fromisoformat(now)):
            return {"text": compiled.template.render(question["variables"])}
    except FAILURES as error:
        return {"failure": explain_failure(error)}


def _find(name: str, source: str | None) -> CompiledTemplate | None:
    compiled = _kept.get(name)
    if compiled is None and source is not None:
        environment = make_environment()
        template = environment.from_string(source)
        variables = sorted(meta.find_undeclared_variables(environment.parse(source)))
        compiled = _kept[name] = CompiledTemplate(variables, template, len(source))
        while len(_kept) > 1 and sum(kept.size for kept in _kept.values()) > MAX_KEPT:
            _kept.popitem(last=False)
    if compiled is not None:
        _kept.move_to_end(name)
    return compiled


def main() -> None:
    answer_questions(answer, MEMORY)
