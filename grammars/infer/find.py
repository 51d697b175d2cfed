"""Finds the wire format of a chat template: inferred by probing, or from the registry."""

from dataclasses import replace
from functools import partial

from grammars.infer.detection import Detection, Evidence, NoFormat, Origin, attempt
from grammars.infer.inference import infer
from grammars.infer.probes import TEXT, ProbedTemplate
from grammars.infer.registered import find_registered
from grammars.infer.slips import find_meant, open_each_call
from grammars.infer.turn import find_late_header
from grammars.infer.verify import find_other_call, try_after_prompt
from grammars.turn import Turn


def find_format(chat: ProbedTemplate) -> Detection | NoFormat:
    """Returns the template's format, verified: it writes the same text as the template. There is
    none if the template writes no calls, or in a way that is neither inferred nor known."""
    found = _find(chat)
    if isinstance(found, NoFormat):
        return found
    chat = replace(chat, reasoning=found.format.reasoning)
    evidence = (*found.evidence, *find_other_call(chat, found.format))
    late = find_late_header(chat)
    if late is None:
        return replace(found, evidence=evidence)
    conclusion = f"a turn may begin with {late.text!r} after a result, where the prompt lacks it"
    evidence = (*evidence, Evidence("a turn after a result", late.text, conclusion))
    return replace(found, format=replace(found.format, late_header=late), evidence=evidence)


def _find(chat: ProbedTemplate) -> Detection | NoFormat:
    own = infer(chat)
    if isinstance(own, NoFormat):
        return _find_registered(chat, own.message)
    if own.slip:
        return _find_well_formed(chat, own)
    if not own.drops_thoughts:
        return own
    # A known format may know how thoughts are written.
    known = _find_registered(chat, "reasoning is written in no known way")
    return own if isinstance(known, NoFormat) else known


def _find_well_formed(chat: ProbedTemplate, slipped: Detection) -> Detection | NoFormat:
    """Returns a known format for a template whose calls are malformed or only seem to be: the one
    with exactly the same text, or else the one that the template means."""
    known = _find_registered(chat, slipped.slip)
    if isinstance(known, Detection):
        return known
    if opened := open_each_call(slipped.format):
        corrected = replace(slipped, format=opened)
        meaning = Evidence("two calls", "", "each is meant to be written as the first one")
    elif meant := find_meant(slipped.format, chat.instruct()):
        corrected = replace(slipped, format=meant, origin=Origin.REGISTERED)
        meaning = Evidence("registry", "", f"the prompt shows the calls of {meant.name}")
    else:
        return known
    meaning = replace(meaning, conclusion=f"{slipped.slip}; {meaning.conclusion}")
    tried = attempt(lambda: tuple(try_after_prompt(chat, corrected.format)))
    if isinstance(tried, NoFormat):
        return tried
    return replace(corrected, evidence=(meaning, *tried))


def _find_registered(chat: ProbedTemplate, reason: str) -> Detection | NoFormat:
    """Returns the format of the registry that the template writes. `reason`: why none is
    inferred."""
    known = attempt(partial(_read_registered, chat, reason))
    if isinstance(known, NoFormat) and not reason.startswith(known.message):
        return NoFormat(f"{known.message} ({reason})")
    return known


def _read_registered(chat: ProbedTemplate, reason: str) -> Detection:
    format = find_registered(chat)
    chat = replace(chat, reasoning=format.reasoning)
    tried = try_after_prompt(chat, format)
    conclusion = f"{reason}; calls are written as those of {format.name}"
    evidence = (Evidence("registry", "", conclusion), *tried, *_find_content_in_thought(chat))
    return Detection(format, Origin.REGISTERED, evidence)


def _find_content_in_thought(chat: ProbedTemplate) -> tuple[Evidence, ...]:
    """Returns content beside a call that the template writes as a thought, as evidence."""
    block, text = chat.reasoning, chat.answer(Turn(TEXT, calls=(chat.call,))) or ""
    if block is None or block.opener.text + block.pad_open + TEXT not in text:
        return ()
    conclusion = "the history has content beside a call as reasoning, unlike what the model wrote"
    return (Evidence("content and a call", text, conclusion),)
