"""Renders chat templates in a process of their own, see `kept_process`: a template may ask for
endless time or memory, or crash Python, and this process goes on."""

import hashlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from constrained.errors import TemplateError
from constrained.limits.kept_process import KeptProcesses, ProcessLimitError
from constrained.prompt.template.environment import TemplateFailure, read_frozen

MAX_SOURCE = 2**18  # characters of a template
SECONDS = 3.0  # of processor time for a rendering; usual ones take milliseconds
DETECTION_SECONDS = 10.0
"""For all renderings that find out how a template writes calls: 0.4 s for those of 150 models."""
REQUEST_SECONDS = 15.0  # for the prompt of a request, with the search for what can be reused
_HINT = "The template is broken or hostile, or the conversation is too long for it: use another one"
PROCESSES = KeptProcesses("constrained.prompt.template.rendering_process")


class TemplateLimitError(TemplateError):
    def __init__(self, message: str):
        super().__init__(message, hint=_HINT)


class RenderingError(Exception):
    def __init__(self, failure: TemplateFailure):
        super().__init__(failure.text)
        self.failure = failure


class _Allowance:
    def __init__(self, seconds: float, outer: "_Allowance | None"):
        self.seconds = self.left = seconds
        if outer is not None and outer.left < seconds:
            self.seconds, self.left = outer.seconds, outer.left
        self.failure: TemplateLimitError | None = None
        self._outer = outer

    def spend(self, seconds: float) -> None:
        self.left -= seconds
        if self._outer is not None:
            self._outer.spend(seconds)

    def fail(self, error: TemplateLimitError) -> None:
        """Ends this work, and what it is a part of: another attempt would take as long."""
        self.failure = error
        if self._outer is not None:
            self._outer.fail(error)


_current: ContextVar[_Allowance | None] = ContextVar("current", default=None)


@contextmanager
def limit_renderings(seconds: float) -> Iterator[None]:
    """Limits the time of all renderings in a `with` block together (TemplateLimitError, even if the
    block has caught it)."""
    allowance = _Allowance(seconds, _current.get())
    token = _current.set(allowance)
    try:
        yield
    finally:
        _current.reset(token)
    if allowance.failure is not None:
        raise TemplateLimitError(allowance.failure.message)


class Renderer:
    def __init__(self, source: str):
        if len(source) > MAX_SOURCE:
            message = f"the template has {len(source):,} characters, the limit is {MAX_SOURCE:,}"
            raise TemplateLimitError(message)
        self._source = source
        self._name = hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()

    def find_variables(self) -> frozenset[str]:
        return frozenset(self._ask(None)["variables"])

    def render(self, variables: Mapping[str, Any]) -> str:
        """Renders the template with JSON data: RenderingError, TemplateLimitError; TypeError or
        ValueError if they are none."""
        return self._ask(variables)["text"]

    def _ask(self, variables: Mapping[str, Any] | None) -> dict[str, Any]:
        now = read_frozen()
        question = {
            "name": self._name,
            "source": None,
            "variables": variables,
            "now": None if now is None else now.isoformat(),
        }
        answer = self._exchange(question) or self._exchange({**question, "source": self._source})
        if "failure" in answer:
            raise RenderingError(TemplateFailure(*answer["failure"]))
        return answer

    def _exchange(self, question: dict[str, Any]) -> dict[str, Any]:
        allowance = _current.get() or _Allowance(SECONDS, None)
        if allowance.failure is not None:
            raise TemplateLimitError(allowance.failure.message)
        begun = time.monotonic()
        try:
            return PROCESSES.ask_even_here(question, min(SECONDS, max(0.0, allowance.left)))
        except ProcessLimitError as e:
            is_all = allowance.left < SECONDS
            reason = (
                f"more than {allowance.seconds:g} seconds in all" if is_all and e.is_late else e
            )
            error = TemplateLimitError(f"the template takes {reason}")
            allowance.fail(error)
            raise error from e
        finally:
            allowance.spend(time.monotonic() - begun)
