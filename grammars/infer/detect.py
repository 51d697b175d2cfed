"""Finds the wire format of a chat template: inferred by probing, or from the registry."""

from dataclasses import dataclass, replace
from enum import StrEnum

from grammars.errors import DetectError
from grammars.infer.after_prompt import try_after_prompt
from grammars.infer.inference import SlipError, infer
from grammars.infer.probes import KEYS, TEXT, VALUES, Evidence, ProbedTemplate, Render
from grammars.infer.registered import find_registered
from grammars.infer.turn import find_late_header
from grammars.infer.verify import find_meant, find_other_call, open_each_call
from grammars.turn import Turn
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
    """The format of a template, its origin, and the reason.

    Args:
        slip: what is malformed in the calls that the template itself writes; "" if nothing is.
        drops_thoughts: thoughts of the history have to be left out of prompts, for the template
            writes them in no known way.
    """

    format: Format
    origin: Origin
    evidence: tuple[Evidence, ...]
    slip: str = ""
    drops_thoughts: bool = False


def detect(render_chat: Render) -> Detection:
    """Returns the template's format, verified: it writes the same text as the template.

    Raises:
        DetectError: the template writes no calls, or in a way that is neither inferred nor known.
    """
    found = _detect(render_chat)
    chat = ProbedTemplate(render_chat, found.format.reasoning)
    found = replace(found, evidence=(*found.evidence, *find_other_call(chat, found.format)))
    late = find_late_header(chat)
    if late is None:
        return found
    conclusion = f"a turn may begin with {late.text!r} after a result, where the prompt lacks it"
    evidence = Evidence("a turn after a result", late.text, conclusion)
    return replace(
        found,
        format=replace(found.format, late_header=late),
        evidence=(*found.evidence, evidence),
    )


def _detect(render_chat: Render) -> Detection:
    try:
        found = infer(render_chat)
    except SlipError as slip:
        return _find_well_formed(render_chat, slip)
    except DetectError as refusal:
        return _find_registered(render_chat, refusal)
    if not found.drops_thoughts:
        return Detection(found.format, Origin.INFERRED, found.evidence)
    try:  # a known format may know how thoughts are written
        return _find_registered(render_chat, DetectError("reasoning is written in no known way"))
    except DetectError:
        return Detection(found.format, Origin.INFERRED, found.evidence, drops_thoughts=True)


def _find_well_formed(render_chat: Render, slip: SlipError) -> Detection:
    """Returns a known format for a template whose calls are malformed or only seem to be: the one
    with exactly the same text, or else the one that the template means.

    Raises:
        DetectError: the prompt shows none, or it does not hold after the generation prompt.
    """
    try:
        return _find_registered(render_chat, slip)
    except DetectError as refusal:
        chat = ProbedTemplate(render_chat, slip.format.reasoning)
        if opened := open_each_call(slip.format):
            tried = tuple(try_after_prompt(chat, opened))
            conclusion = f"{slip.message}; each is meant to be written as the first one"
            evidence = (Evidence("two calls", "", conclusion), *tried)
            return Detection(opened, Origin.INFERRED, evidence, slip=slip.message)
        format = find_meant(slip.format, chat.instruct())
        if format is None:
            raise refusal
    tried = tuple(try_after_prompt(chat, format))
    conclusion = f"{slip.message}; the prompt shows the calls of {format.name}"
    evidence = (Evidence("registry", "", conclusion), *tried)
    return Detection(format, Origin.REGISTERED, evidence, slip=slip.message)


def _find_registered(render_chat: Render, refusal: DetectError) -> Detection:
    """Returns the format of the registry that the template writes.

    Args:
        render_chat: the template.
        refusal: why no format is inferred.

    Raises:
        DetectError: the template writes no known format, or the format fails after the generation
            prompt. The message includes the refusal.
    """
    try:
        format = find_registered(render_chat)
        tried = tuple(try_after_prompt(ProbedTemplate(render_chat, format.reasoning), format))
    except DetectError as e:
        message = e.message
        if not refusal.message.startswith(message):
            message += f" ({refusal.message})"
        raise DetectError(message, where=e.where, hint=e.hint) from refusal
    conclusion = f"{refusal.message}; calls are written as those of {format.name}"
    evidence = (Evidence("registry", "", conclusion), *tried)
    evidence += _find_content_in_thought(ProbedTemplate(render_chat, format.reasoning))
    return Detection(format, Origin.REGISTERED, evidence)


def _find_content_in_thought(chat: ProbedTemplate) -> tuple[Evidence, ...]:
    """Returns content beside a call that the template writes as a thought, as evidence; () if it
    does not."""
    block, call = chat.reasoning, chat.calls({KEYS[0]: VALUES[0]})
    text = chat.answer(Turn(TEXT, calls=call)) or ""
    if block is None or block.opener.text + block.pad_open + TEXT not in text:
        return ()
    conclusion = "the history has content beside a call as reasoning, unlike what the model wrote"
    return (Evidence("content and a call", text, conclusion),)
