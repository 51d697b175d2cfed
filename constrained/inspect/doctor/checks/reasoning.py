"""Checks how the model reasons, and which variables control it."""

from collections.abc import Iterable, Iterator
from typing import Any

from constrained.inspect.doctor.subject import Subject
from constrained.inspect.doctor.switches import Setting, list_variables
from constrained.inspect.doctor.verdicts import Level, Verdict, shorten
from grammars.turn import Start

EFFORTS = "reasoning_effort"
"""The variable that gets the effort of a request."""
_STARTS = {
    Start.PLAIN: "before any reasoning: the model decides whether it reasons",
    Start.OPEN: "inside a reasoning block: it always reasons",
    Start.CLOSED: "after a closed reasoning block: it does not reason",
}


def check_reasoning(subject: Subject) -> Iterator[Verdict]:
    if subject.template is None:
        return
    format = subject.selected.format
    block, switches = format.reasoning, subject.switches
    if block is None:
        yield Verdict(Level.OK, "the template has no reasoning block")
    else:
        markers = [block.opener.text, block.closer.text]
        text = f"reasoning is written between {' and '.join(block.shown)}"
        yield Verdict(Level.OK, text, facts={"markers": markers})
        start = switches.default.start
        facts: dict[str, Any] = {"start": start.value, "prompt": switches.prompt}
        yield Verdict(Level.OK, f"by default a turn begins {_STARTS[start]}", facts=facts)
    for setting, values in _group(switches.settings).values():
        shown = " or ".join(map(repr, values))
        text = f"{setting.name}={shown} changes {_name_change(setting)}"
        if setting.changes_prompt:
            text += f", which ends with {shorten(repr(setting.prompt), 80)}"
        if block is not None and setting.start is not switches.default.start:
            text += f"; the turn begins {_STARTS[setting.start]}"
        facts = {"name": setting.name, "values": values, "start": setting.start.value}
        yield Verdict(Level.OK, text, facts=facts)
    if switches.without_effect:
        names = ", ".join(switches.without_effect)
        text = f"no value that was tried changes anything: {names}"
        yield Verdict(Level.OK, text, is_detail=True)
    if block is not None:
        yield from _check_control(subject)


def _group(settings: Iterable[Setting]) -> dict[tuple[Any, ...], tuple[Setting, list[Any]]]:
    """Returns the first setting of each effect, and all values with the same effect."""
    groups: dict[tuple[Any, ...], tuple[Setting, list[Any]]] = {}
    for setting in settings:
        effect = setting.name, setting.prompt, setting.start, setting.changes_history
        groups.setdefault(effect, (setting, []))[1].append(setting.value)
    return groups


def _name_change(setting: Setting) -> str:
    if setting.changes_prompt and setting.changes_history:
        return "the conversation and the generation prompt"
    if setting.changes_prompt:
        return "the generation prompt"
    return "the conversation"


def _check_control(subject: Subject) -> Iterator[Verdict]:
    """Checks whether reasoning can be turned off, and whether an effort has an effect."""
    switches = subject.switches
    starts = {switches.default.start, *(setting.start for setting in switches.settings)}
    if starts == {Start.OPEN}:
        yield Verdict(
            Level.NOTE,
            "no variable of the template turns reasoning off",
            "In this project, reasoning: off or a budget of 0 closes the block at once",
        )
    if EFFORTS not in list_variables(subject.selected.template):
        yield Verdict(
            Level.NOTE,
            "the template reads no reasoning_effort: it does not reach the model",
            "In this project an effort is a budget of tokens, which the engine enforces",
            facts={"effort": False},
        )
