"""Which wire format a chat template teaches: inferred by probing, or found in the registry."""

from dataclasses import dataclass
from enum import StrEnum

from grammars.errors import DetectError
from grammars.infer.behind_prompt import try_behind_prompt
from grammars.infer.inference import infer
from grammars.infer.probes import Evidence, ProbedTemplate, Render
from grammars.infer.registered import find_registered
from grammars.wire.format import Format


class Origin(StrEnum):
    """Where a format comes from."""

    INFERRED = "inferred"
    REGISTERED = "registered"
    SHOWN = "shown"
    GENERIC = "generic"
    CHOSEN = "chosen"


@dataclass(frozen=True)
class Detection:
    """The format of a template, where it comes from, and why it is that."""

    format: Format
    origin: Origin
    evidence: tuple[Evidence, ...]


def detect(render_chat: Render) -> Detection:
    """The format that the template teaches, verified: it writes what the template writes.

    Raises:
        DetectError: the template writes no calls, or in a way that is neither inferred nor known.
    """
    try:
        found = infer(render_chat)
    except DetectError as refusal:
        return _find_registered(render_chat, refusal)
    return Detection(found.format, Origin.INFERRED, found.evidence)


def _find_registered(render_chat: Render, refusal: DetectError) -> Detection:
    """The format of the registry that the template writes.

    Args:
        render_chat: the template.
        refusal: why no format is inferred.

    Raises:
        DetectError: none is known, or it does not hold behind the generation prompt; tells the
            refusal as well.
    """
    try:
        format = find_registered(render_chat)
        tried = tuple(try_behind_prompt(ProbedTemplate(render_chat, format.reasoning), format))
    except DetectError as e:
        message = e.message
        if not refusal.message.startswith(message):
            message += f" ({refusal.message})"
        raise DetectError(message, where=e.where, hint=e.hint) from refusal
    conclusion = f"{refusal.message}; calls are written as those of {format.name}"
    return Detection(format, Origin.REGISTERED, (Evidence("registry", "", conclusion), *tried))
