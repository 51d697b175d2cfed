"""Finds the clause of a chat template that makes two prompts differ, and variables that avoid
it."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from constrained.inspect.cache_check.experiments import SentConversation
from constrained.inspect.doctor.checks.cache import list_cases
from constrained.inspect.doctor.subject import Subject
from constrained.inspect.template_trace.clauses import Clause, explain_difference
from constrained.inspect.template_trace.tracing import Trace, TracedTemplate
from constrained.prompt.template.chat_template import ChatTemplate
from grammars.errors import Error


class BlamedTemplate:
    """The template of a server.

    Args:
        subject: the template, as the doctor examines it.
        template: the same, parsed.
    """

    def __init__(self, subject: Subject, template: ChatTemplate):
        self._subject = subject
        self._traced = TracedTemplate(template)

    def find_clause(self, earlier: SentConversation, later: SentConversation) -> Clause | None:
        """Finds the clause that makes the prompt of a request differ from that of an earlier one;
        None: there is none, or it is not known."""
        return explain_difference(self._trace(earlier), self._trace(later))

    def goes_on(self, earlier: SentConversation, later: SentConversation) -> bool:
        """Returns whether the prompt of a request begins with that of an earlier one; False: it
        does not, or the template refuses one of them."""
        one, other = self._trace(earlier), self._trace(later)
        return one is not None and other is not None and other.text.startswith(one.text)

    def find_cure(self, shape: str) -> Mapping[str, Any] | None:
        """Returns variables of the template with which every prompt of a shape begins with the last
        one; None: there are none."""
        return self._cures.get(shape)

    def _trace(self, sent: SentConversation) -> Trace | None:
        return self._traced.try_trace(sent.messages, sent.tools)

    @cached_property
    def _cures(self) -> dict[str, Mapping[str, Any]]:
        cures: dict[str, Mapping[str, Any]] = {}
        try:
            for case in list_cases(self._subject):
                if not case.mode and case.cures is not None:
                    cures[case.walk.shape.name] = case.cures
        except Error:  # the template shows no format, so there is no advice
            return {}
        return cures


def read_template(properties: Mapping[str, Any]) -> BlamedTemplate | None:
    """Reads the template from a server's properties; None: it cannot be used.

    Args:
        properties: from `/props`.
    """
    texts: dict[str, str] = {}
    for key in ("chat_template", "bos_token", "eos_token"):
        value = properties.get(key)
        texts[key] = value if isinstance(value, str) else ""
    subject = Subject(
        "the server's template",
        texts["chat_template"],
        bos_text=texts["bos_token"],
        eos_text=texts["eos_token"],
    )
    template = subject.template
    return None if template is None else BlamedTemplate(subject, template)
