"""Renders traced chat templates; the main module of the process in which they run."""

from collections.abc import Mapping
from typing import Any

from constrained.inspect.template_trace.traced_code import TracedCode
from constrained.limits.answering import answer_questions
from constrained.prompt.template import rendering_process
from constrained.prompt.template.rendering_process import MEMORY, CompiledTemplate


def answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """Answers a question of `rendering_process`, with the `record` of the rendering."""
    return rendering_process.answer(question, _compile)


def _compile(source: str) -> CompiledTemplate:
    return CompiledTemplate([], TracedCode(source).render, len(source))


def main() -> None:
    answer_questions(answer, MEMORY)
