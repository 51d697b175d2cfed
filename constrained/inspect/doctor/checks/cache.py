"""Checks whether the KV cache stays valid between requests, and which clause invalidates it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from constrained.engine.header import Header
from constrained.errors import TemplateError
from constrained.inspect.doctor.conversations import SHAPES
from constrained.inspect.doctor.stability import Break, Contract, Walk, Walker
from constrained.inspect.doctor.subject import Subject
from constrained.inspect.doctor.switches import Switches
from constrained.inspect.doctor.verdicts import Level, Verdict
from constrained.prompt.job import Recall
from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.template.environment import freeze
from grammars.errors import Error
from grammars.wire.format import count_common

_ALL = 0.999  # the fraction of tokens from which on all count as kept
_MOMENT = datetime(2026, 3, 4, 10, 30)
_LATER = {
    "minute": _MOMENT + timedelta(minutes=1),
    "hour": _MOMENT + timedelta(hours=1),
    "day": _MOMENT + timedelta(days=1),
}
_CONTRACTS = {
    Contract.PROMPT: "the next prompt differs from this one",
    Contract.TURN: "the template writes the turn differently from the model",
}


@dataclass(frozen=True)
class Case:
    """A shape with reasoning on, off, or at its default."""

    mode: str  # "", "on" or "off"
    walk: Walk
    kept: float = 1.0  # the fraction of the tokens that this project reuses; 1 if nothing breaks
    # variables of the template with which no prompt changes; None: there are none
    cures: dict[str, Any] | None = None
    keeps_by_recall: bool = False  # with `recall: keep`, this project reuses all tokens


def check_cache(subject: Subject) -> Iterator[Verdict]:
    """Checks five shapes of conversations with reasoning on and off, then the date."""
    if subject.template is None:
        return
    for case in list_cases(subject):
        yield judge_case(case)
    yield from _check_date(subject.selected.template)


def list_cases(subject: Subject) -> Iterator[Case]:
    """Lists the shapes and modes whose prompts differ from those of all cases before."""
    vocabulary = None
    if isinstance(subject.header, Header):
        vocabulary = subject.header.vocabulary
    walker = Walker(subject.selected, vocabulary)
    switches = subject.switches
    seen: set[tuple[str, ...]] = set()
    for mode, kwargs in switches.modes().items():
        if mode and not kwargs:
            continue
        for shape in SHAPES:
            walk = walker.walk(shape, kwargs)
            if mode and walk.texts in seen:
                continue
            seen.add(walk.texts)
            if not walk.breaks:
                yield Case(mode, walk)
                continue
            kept = _measure_kept(walk, walker, Recall.AUTO)
            cures = _find_cure(walk, walker, switches)
            by_recall = kept < _ALL and _measure_kept(walk, walker, Recall.KEEP) >= _ALL
            yield Case(mode, walk, kept, cures=cures, keeps_by_recall=by_recall)


def _measure_kept(walk: Walk, walker: Walker, recall: Recall) -> float:
    try:
        return walker.measure_kept(walk, recall)
    except Error:  # a prompt that cannot be composed reuses nothing
        return 0.0


def _find_cure(walk: Walk, walker: Walker, switches: Switches) -> dict[str, Any] | None:
    """Finds a variable of the template with which all prompts begin with the last one."""
    for setting in switches.settings:
        if setting.changes_prompt or not setting.changes_history:
            continue
        if walker.walk(walk.shape, {**walk.kwargs, **setting.kwargs}).is_stable:
            return setting.kwargs
    return None


def judge_case(case: Case) -> Verdict:
    walk = case.walk
    name = walk.shape.name
    if case.mode:
        name += f", thinking {case.mode}"
    facts: dict[str, Any] = {"shape": walk.shape.name, "thinking": case.mode or "default"}
    facts |= {"stable": walk.is_stable, "breaks": list(map(_show_break, walk.breaks))}
    if walk.refused:
        return Verdict(Level.NOTE, f"{name}: the template refuses it: {walk.refused}", facts=facts)
    if walk.is_stable:
        return Verdict(Level.OK, f"{name}: every prompt begins with what is cached", facts=facts)
    facts |= {"kept": round(case.kept, 3)}
    worst = max(walk.breaks, key=lambda found: found.lost)
    text = (
        f"{name}: at turn {worst.turn} {_CONTRACTS[worst.contract]} from byte {worst.offset:,} on: "
        f"{worst.earlier!r} becomes {worst.later!r}; about {worst.lost:,} tokens are computed "
        f"again"
    )
    if worst.drops_reasoning and walk.shape.returns_reasoning:
        text += ". The template leaves out reasoning that the client sends back"
    elif worst.drops_reasoning:
        text += ". The client does not send reasoning back"
    level = Level.WARNING
    if case.kept >= _ALL:
        level = Level.NOTE
    return Verdict(level, text, _describe_remedy(case), facts)


def _describe_remedy(case: Case) -> str:
    sentences: list[str] = []
    if case.cures is not None:
        kwargs = json.dumps(case.cures)
        sentences.append(
            f"--chat-template-kwargs '{kwargs}' makes every prompt begin with the previous one"
        )
    if case.kept >= _ALL:
        sentences.append("Not a problem here: the tokens of earlier turns are reused")
    else:
        sentences.append(f"This project reuses {100 * case.kept:.0f} % of the tokens here")
        if case.keeps_by_recall:
            sentences.append("--recall keep reuses all")
    return ". ".join(sentences)


def _show_break(found: Break) -> dict[str, Any]:
    return {
        "contract": found.contract.value,
        "turn": found.turn,
        "offset": found.offset,
        "earlier": found.earlier,
        "later": found.later,
        "tokens_lost": found.lost,
        "drops_reasoning": found.drops_reasoning,
    }


def _check_date(template: ChatTemplate) -> Iterator[Verdict]:
    """Checks whether the prompt has the date or the time of day."""
    with freeze(_MOMENT):
        before = _render(template)
    for unit, later in _LATER.items():
        with freeze(later):
            after = _render(template)
        if before == after or before is None or after is None:
            continue
        offset = len(before[: count_common(before, after)].encode())
        level = Level.NOTE if unit == "day" else Level.WARNING
        yield Verdict(
            level,
            f"the prompt changes with each {unit}, from byte {offset:,} on",
            "The server of this project keeps the date of a conversation fixed; others do not",
            facts={"unit": unit, "offset": offset},
        )
        return


def _render(template: ChatTemplate) -> str | None:
    shape = SHAPES[1]
    try:
        return template.render(shape.sent[:2], shape.tools)
    except TemplateError:
        return None
