"""Which wire format a chat template teaches: inferred by probing, or found in the registry."""

from dataclasses import dataclass
from enum import StrEnum

from grammars.errors import DetectError
from grammars.infer.inference import infer
from grammars.infer.probes import Evidence, Render
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
        format = find_registered(render_chat)
        conclusion = f"{refusal.message}; calls are written as those of {format.name}"
        return Detection(format, Origin.REGISTERED, (Evidence("registry", "", conclusion),))
    return Detection(found.format, Origin.INFERRED, found.evidence)
