"""Renders chat templates; the main module of the process in which they run."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from jinja2 import meta

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
    """A compiled template.

    Attributes:
        variables: the names that it reads.
        render: returns the answer for these variables.
        size: the characters of its source.
    """

    variables: list[str]
    render: Callable[[Mapping[str, Any]], dict[str, Any]]
    size: int


def compile_template(source: str) -> CompiledTemplate:
    """Compiles a template. Raises one of the `FAILURES`."""
    environment = make_environment()
    template = environment.from_string(source)
    variables = sorted(meta.find_undeclared_variables(environment.parse(source)))

    def render(variables: Mapping[str, Any]) -> dict[str, Any]:
        return {"text": template.render(variables)}

    return CompiledTemplate(variables, render, len(source))


Compile: TypeAlias = Callable[[str], CompiledTemplate]
_kept: OrderedDict[tuple[str, Compile], CompiledTemplate] = OrderedDict()


def answer(question: Mapping[str, Any], compile: Compile = compile_template) -> dict[str, Any]:
    """Answers one question.

    Args:
        question: `{name, source, variables, now}`. `name` is that of a template; if
            `source` is null, it was sent before. Without `variables`, it is only compiled. `now`
            is what the template sees as the time.
        compile: compiles the source of a template.

    Returns:
        `{text}`, and what else `compile` lets a rendering answer; `{variables}` that the template
        reads; `{failure}` as `TemplateFailure` has it; or `{}` if the source has to be sent again.
    """
    try:
        compiled = _find(question["name"], question["source"], compile)
        if compiled is None:
            return {}
        if question["variables"] is None:
            return {"variables": compiled.variables}
        now = question["now"]
        with freeze(None if now is None else datetime.fromisoformat(now)):
            return compiled.render(question["variables"])
    except FAILURES as error:
        return {"failure": explain_failure(error)}


def _find(name: str, source: str | None, compile: Compile) -> CompiledTemplate | None:
    """Returns a compiled template; None: its source is needed."""
    key = name, compile
    compiled = _kept.get(key)
    if compiled is None and source is not None:
        compiled = compile(source)
        _kept[key] = compiled
        while len(_kept) > 1 and sum(kept.size for kept in _kept.values()) > MAX_KEPT:
            _kept.popitem(last=False)
    if compiled is not None:
        _kept.move_to_end(key)
    return compiled


def main() -> None:
    answer_questions(answer, MEMORY)
