"""Which wire format a chat template teaches; the generic one where it teaches none known."""

from dataclasses import dataclass, replace

from constrained.generic import GenericTemplate
from constrained.template import ChatTemplate
from grammars.detect import detect
from grammars.detect_reasoning import find_reasoning
from grammars.errors import DetectError
from grammars.formats import GENERIC
from grammars.wire import Format


def detect_format(template: ChatTemplate) -> Format:
    """The wire format that a template teaches.

    Raises:
        TemplateError: the template fails on a plain message.
        DetectError: it writes calls in a format that is not known.
    """
    try:
        return detect(template.render)
    except DetectError:
        template.render([{"role": "user", "content": "Hello"}])  # says why, if it always fails
        raise


@dataclass(frozen=True)
class Teaching:
    """A chat template, the wire format that it teaches, and what there is to say about it."""

    template: ChatTemplate
    format: Format
    notice: str = ""


def find_teaching(template: ChatTemplate) -> Teaching:
    """The format of a template; the generic one, with instructions for it in the prompt, where the
    template writes no calls, or in a way that is not known.

    Raises:
        TemplateError: the template fails on a plain message.
    """
    try:
        return Teaching(template, detect_format(template))
    except DetectError as e:
        format = replace(GENERIC, reasoning=find_reasoning(template.render))
        notice = (
            f"{template.name}: {e.message}: the generic tool format is used, and explained in the "
            "prompt (--chat-template-file names another template)"
        )
        return Teaching(GenericTemplate(template, format), format, notice)
