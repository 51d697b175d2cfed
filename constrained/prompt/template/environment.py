"""The jinja2 environment of chat templates, with the filters and functions that they expect.

Imported by the process in which templates run, so it imports little.
"""

import json
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any, NamedTuple

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError, TemplateSyntaxError, UndefinedError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import SandboxedEnvironment

FAILURES = (
    jinja2.TemplateError,
    ArithmeticError,
    AssertionError,  # from filters of jinja2 that check their arguments
    AttributeError,
    LookupError,
    RuntimeError,
    SyntaxError,  # from the Python code that jinja2 generates, if it nests too deeply
    TypeError,
    ValueError,
)
"""The exceptions that a template can raise."""
_HINTS: tuple[tuple[type[Exception], str], ...] = (
    (TemplateSyntaxError, "Correct the template, or use another one"),
    (SecurityError, "Templates run in a sandbox; this one is broken or hostile: use another one"),
    (UndefinedError, "The template reads a field or variable that it was not given"),
    (jinja2.TemplateError, "The template refuses this conversation: change it, or the template"),
    (
        RecursionError,
        "The data is nested too deeply, or a tool's schema is too complex for this template",
    ),
)
_OTHER_HINT = "The template cannot handle these messages, tools or kwargs"
_MAX_QUOTED = 1_000  # characters of a failure that the error quotes

_frozen: ContextVar[datetime | None] = ContextVar("frozen", default=None)


class TemplateFailure(NamedTuple):
    text: str
    line: int | None
    hint: str


def explain_failure(error: Exception) -> TemplateFailure:
    text = str(getattr(error, "message", None) or error) or type(error).__name__
    hint = next((hint for kind, hint in _HINTS if isinstance(error, kind)), _OTHER_HINT)
    return TemplateFailure(text[:_MAX_QUOTED].rstrip("."), _find_line(error), hint)


def _find_line(error: Exception) -> int | None:
    if isinstance(error, TemplateSyntaxError):
        return error.lineno
    line = None
    for frame in traceback.extract_tb(error.__traceback__):
        # jinja2 maps the lines of its generated Python code to those of the template.
        if frame.filename == "<template>" and frame.lineno:
            line = frame.lineno
    return line


class _Generation(Extension):
    """`{% generation %}...{% endgeneration %}`: marks assistant text in transformers; no effect."""

    tags = {"generation"}  # noqa: RUF012  (declared so by jinja2)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)  # in transformers, the body also has its own scope


def _raise_exception(message: Any = "") -> None:
    raise jinja2.TemplateError(str(message))


def _json_default(value: Any) -> Any:
    """Writes Undefined as null, as llama.cpp does; results of map, selectattr and items() as
    arrays."""
    if isinstance(value, jinja2.Undefined):
        return None
    return list(value)  # Jinja's filters return generators, which json cannot write


def tojson(
    value: Any,
    # Not keyword-only: templates pass them by position, as in transformers.
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """The filter of transformers; jinja2's own escapes HTML."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
        default=_json_default,
    )


def read_now() -> datetime:
    return _frozen.get() or datetime.now()


def read_frozen() -> datetime | None:
    return _frozen.get()


@contextmanager
def freeze(moment: datetime | None) -> Iterator[None]:
    """Sets the time that templates see as now (None: the real time). A prompt with a date then
    stays the same, and stays in the cache."""
    token = _frozen.set(moment)
    try:
        yield
    finally:
        _frozen.reset(token)


def _strftime_now(form: str) -> str:
    return read_now().strftime(form)


def make_environment() -> Any:
    # transformers uses the immutable sandbox, but the template of Kimi-K2 appends to a list. A
    # template can change only its own values and its copy of the data.
    environment = SandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"]
    )
    environment.filters |= {"tojson": tojson, "from_json": json.loads}
    environment.globals |= {
        "raise_exception": _raise_exception,
        "strftime_now": _strftime_now,
    }
    return environment
