"""Which wire format a chat template teaches; the generic one where it teaches none known."""

import hashlib
from dataclasses import dataclass, field, replace
from functools import lru_cache

from constrained.format_selection.generic import GenericTemplate
from constrained.template.chat_template import ChatTemplate
from grammars.errors import DetectError
from grammars.formats import GENERIC
from grammars.infer.detect import Detection, Origin, detect
from grammars.infer.reasoning import find_reasoning
from grammars.schema.nodes import Json
from grammars.wire.format import Format, Reasoning

REMEMBERED = 64  # templates
_PROBE = "probe_of_a_tool"


def detect_format(template: ChatTemplate) -> Detection:
    """The wire format that a template teaches.

    Raises:
        TemplateError: the template fails on a plain message.
        DetectError: it writes calls in a format that is not known.
    """
    found = _detect(_key(template)) if _is_plain(template) else _probe(template)
    if isinstance(found, Detection):
        return found
    template.render([{"role": "user", "content": "Hello"}])  # says why, if it always fails
    raise DetectError(found.message, where=found.where, hint=found.hint)


def find_block(template: ChatTemplate) -> Reasoning | None:
    """The reasoning block that a template writes or prefills; None if it knows none."""
    return _find_block(_key(template)) if _is_plain(template) else find_reasoning(template.render)


@dataclass(frozen=True)
class _Key:
    """A template that equals all others of the same text: probing takes some 0.3 s, so what it
    finds is kept for the next model, compiler or frame. The name, which errors tell, is no part of
    it."""

    digest: bytes
    template: ChatTemplate = field(compare=False)


def _is_plain(template: ChatTemplate) -> bool:
    """A subclass renders what its source does not tell."""
    return type(template) is ChatTemplate


def _key(template: ChatTemplate) -> _Key:
    texts = (template.source, *(f"{k}={v}" for k, v in sorted(template.tokens.items())))
    parts = (text.encode("utf-8", "surrogatepass") for text in texts)
    digests = b"".join(hashlib.sha256(part).digest() for part in parts)
    return _Key(hashlib.sha256(digests).digest(), template)


@lru_cache(maxsize=REMEMBERED)
def _detect(key: _Key) -> Detection | DetectError:
    return _probe(key.template)


@lru_cache(maxsize=REMEMBERED)
def _find_block(key: _Key) -> Reasoning | None:
    return find_reasoning(key.template.render)


def _probe(template: ChatTemplate) -> Detection | DetectError:
    """What is found, or why nothing is: an error of its own, which holds no frames."""
    try:
        return detect(template.render)
    except DetectError as e:
        return DetectError(e.message, where=e.where, hint=e.hint)


@dataclass(frozen=True)
class Teaching:
    """A chat template, the wire format that it teaches, and what there is to say about it."""

    template: ChatTemplate
    format: Format
    origin: Origin
    notice: str = ""


def _find_own(template: ChatTemplate) -> Teaching:
    """The template's own format. Some templates write calls, but do not tell the model of its
    tools; the prompt does so then.

    Raises:
        DetectError: as `detect_format`; or the format is not certain, and the tools are untold.
    """
    found = detect_format(template)
    describes = _describes_tools if _is_plain(template) else _describes_tools.__wrapped__
    if describes(_key(template)):
        return Teaching(template, found.format, found.origin)
    message = "the chat template does not describe the tools"
    if found.origin is not Origin.INFERRED:
        raise DetectError(message)
    notice = f"{template.name}: {message}: the prompt explains them, in the model's own tool format"
    taught = GenericTemplate(template, found.format, keeps_history=True)
    return Teaching(taught, found.format, found.origin, notice)


@lru_cache(maxsize=REMEMBERED)
def _describes_tools(key: _Key) -> bool:
    """Does the prompt tell of the tools?"""
    asks: list[dict[str, Json]] = [{"role": "user", "content": "Hello"}]
    parameters: Json = {"type": "object", "properties": {"a": {"type": "string"}}}
    function: Json = {"name": _PROBE, "description": "A probe", "parameters": parameters}
    return _PROBE in key.template.render(asks, [{"type": "function", "function": function}])


def find_teaching(template: ChatTemplate) -> Teaching:
    """The format of a template; the generic one, with instructions for it in the prompt, where the
    template writes no calls, or in a way that is not known.

    Raises:
        TemplateError: the template fails on a plain message.
    """
    try:
        return _find_own(template)
    except DetectError as e:
        format = replace(GENERIC, reasoning=find_block(template))
        notice = (
            f"{template.name}: {e.message}: the generic tool format is used, and explained in the "
            "prompt (--chat-template-file names another template)"
        )
        return Teaching(GenericTemplate(template, format), format, Origin.GENERIC, notice)
