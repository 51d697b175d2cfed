"""Selects the wire format of a model: that of its chat template, the one that the user chooses, or
the generic one. The prompt always teaches what the grammar enforces: instructions are added if the
template does not teach it, or does not describe the tools; see `generic`."""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from constrained.engine.files.input_files import read_input
from constrained.errors import RequestError
from constrained.prompt.format_selection.counted_ids import CountedIdTemplate, find_id_pattern
from constrained.prompt.format_selection.generic import (
    EXAMPLES,
    HARDLY_CALLS,
    RESULT_STEMS,
    Abilities,
    GenericTemplate,
    let_quote_result,
    write_example,
)
from constrained.prompt.format_selection.template_facts import TemplateFacts, find_facts
from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.template.rendering import DETECTION_SECONDS, limit_renderings
from grammars.errors import FormatError, RenderError
from grammars.infer.detection import Detection, Evidence, NoFormat, Origin
from grammars.infer.probes import make_tool, show_call
from grammars.infer.reasoning import find_prompted
from grammars.infer.shown import find_shown
from grammars.schema.json_values import Json
from grammars.turn import Policy
from grammars.wire.format import Content, Format, Marker, Reasoning, find_named
from grammars.wire.format_text import load_format
from grammars.wire.formats import FORMATS, GENERIC, SIGNS

_HINT = "Leave the tool format out, or use another one (generic, hermes)"
_OWN_HINT = "Leave the tool format out: this model keeps its own"


@dataclass(frozen=True)
class SelectedFormat:
    """A wire format and the chat template that teaches it.

    Args:
        tool_tags: the texts around tools that this project writes into prompts.
    """

    template: ChatTemplate
    format: Format
    origin: Origin
    evidence: tuple[Evidence, ...] = ()
    notice: str = ""
    tool_tags: tuple[str, ...] = ()
    result_tags: tuple[str, ...] = ()

    def guard_text(
        self, policy: Policy, messages: Sequence[Mapping[str, Any]], *, has_tools: bool
    ) -> tuple[Format, Policy]:
        """Returns format and policy of a turn whose text has nothing of what stands around tools
        and results in the prompt, which small models copy."""
        has_results = any(message.get("role") == "tool" for message in messages)
        excluded: tuple[str, ...] = ()
        if has_tools:
            excluded = (*self.tool_tags, *self.result_tags)
        elif has_results:
            excluded = self.result_tags
        if not excluded:
            return self.format, policy
        format = self.format
        if has_results and _writes_results(self.template):
            format = let_quote_result(format)
        return format, replace(policy, excluded=excluded)


@limit_renderings(DETECTION_SECONDS)
def select_format(
    template: ChatTemplate,
    chosen: Format | None = None,
    *,
    special_tokens: Collection[str] | None = None,
) -> SelectedFormat:
    """Selects the wire format for a chat template: the `chosen` one, or else the one that the
    template teaches or its prompt shows, or the generic one. If the template does not teach it, the
    prompt does. RequestError: the chosen format cannot be used; TemplateError: the template fails
    on a plain message."""
    facts = find_facts(template)
    selector = _Selector(template, facts, special_tokens)
    selected = selector.select() if chosen is None else selector.select_chosen(chosen)
    teacher, format = selected.template, selected.format
    if format.reasoning is not None:
        block = find_prompted(facts.style.prompt, facts.style.turns, format.reasoning)
        format = format if block is format.reasoning else replace(format, reasoning=block)
    tool_tags = teacher.tool_tags if isinstance(teacher, GenericTemplate) else ()
    result_tags = RESULT_STEMS if _writes_results(teacher) else facts.result_tags
    return replace(
        selected,
        template=teacher.with_forms(),
        format=format,
        tool_tags=tool_tags,
        result_tags=result_tags,
    )


def _writes_results(template: ChatTemplate) -> bool:
    return isinstance(template, GenericTemplate) and template.writes_results


_WRITES_ALL = Abilities(tools=True, calls=True, results=True)


@dataclass(frozen=True)
class _Selector:
    template: ChatTemplate
    facts: TemplateFacts
    special_tokens: Collection[str] | None

    def select(self) -> SelectedFormat:
        reasons: list[str] = []
        for selected in self._try_all():
            if isinstance(selected, SelectedFormat):
                return selected
            reasons.append(selected.message)
        *others, last = reasons
        return self._teach_generic(f"{', '.join(others)}, and {last}" if others else last)

    def _try_all(self) -> Iterator[SelectedFormat | NoFormat]:
        """Yields the template's own format, and the one that it shows, each with what teaches it;
        or why it cannot be used."""
        found, facts = self.facts.detection, self.facts
        if isinstance(found, NoFormat):
            # A template without tools and one that always fails are refused alike.
            self.template.render([{"role": "user", "content": "Hello"}])
            yield found
        elif found.slip:
            yield self._try_corrected(found)
        elif not facts.describes_tools:
            yield self._try_undescribed(found)
        else:
            # Phi-4-mini is told to write `functools[...]`, and its history has calls without it.
            # The prompt is what the model follows, and only with the marker is a call no answer.
            stated = facts.stated if found.format.bare is not None else None
            if isinstance(stated, Detection) and stated.format.opener is not None:
                yield self._try_shown(stated)
            yield self._teach_own(found)
        if facts.describes_tools:
            yield self._try_prompt()

    def _teach(
        self, found: Detection, notice: str = "", abilities: Abilities | None = None
    ) -> SelectedFormat:
        """Selects a format and its teacher; without `abilities`, the template writes all."""
        template = self.template
        if abilities is not None:
            template = GenericTemplate(template, found.format, abilities=abilities)
        elif find_id_pattern(found.format) and self.facts.writes_call_ids:
            template = CountedIdTemplate(template, found.format)  # as the model writes them
        notice = f"{self.template.name}: {notice}" if notice else ""
        return SelectedFormat(template, found.format, found.origin, found.evidence, notice)

    def _teach_own(self, found: Detection) -> SelectedFormat:
        if not found.drops_thoughts:
            return self._teach(found)
        notice = (
            "the chat template writes reasoning in an unknown way: prompts leave it out, and "
            "reasoning that the model writes is content"
        )
        return self._teach(found, notice, _WRITES_ALL)

    def _try_undescribed(self, found: Detection) -> SelectedFormat | NoFormat:
        """Takes the format of a template that writes calls, but does not describe the tools."""
        message = "the chat template does not describe the tools"
        # A format that only resembles a known one may lack a part of it: the end of the calls, or
        # calls beside content. So calls of the history are written here.
        abilities = Abilities(calls=found.origin is Origin.INFERRED, results=True)
        notice = f"{message}: the prompt explains them, in the model's own tool format"
        selected = self._teach(found, notice, abilities)
        if abilities.calls:
            return selected
        changed = f"{message}, and changes calls of the format {found.format.name}"
        return _check_calls(selected, changed)

    def _try_corrected(self, found: Detection) -> SelectedFormat | NoFormat:
        """Takes the format that a template with a slip in its calls means. The prompt of the
        template shows it; calls of the history become text of their message, well-formed."""
        correction = f"its prompt shows those of {found.format.name}"
        if found.origin is Origin.INFERRED:
            correction = "each should be written like the first one"
        notice = (
            f"{found.slip}; {correction}, in which the calls of the history are written into their "
            "messages (correct the template, and name it with --chat-template-file)"
        )
        abilities = Abilities(tools=True, results=self.facts.writes_results)
        changed = f"{found.slip}, and changes calls of the format {found.format.name}"
        return _check_calls(self._teach(found, notice, abilities), changed)

    def _try_prompt(self) -> SelectedFormat | NoFormat:
        """Takes the format that a prompt with tools shows, by a sign of a known one, or by an
        example. If the template writes calls that cannot be parsed, only an example counts."""
        reasons: list[str] = []
        if self.facts.only_shows_tools:
            shown = find_shown(self.facts.chat, self.special_tokens)
            if isinstance(shown, Detection):
                return self._try_shown(shown)
            reasons.append(shown.message)
        stated = self.facts.stated
        if isinstance(stated, Detection):
            return self._try_shown(stated)
        return NoFormat(", and ".join([*reasons, stated.message]))

    def _try_shown(self, shown: Detection) -> SelectedFormat | NoFormat:
        """Takes a format that a prompt with tools shows. The template describes the tools; calls of
        the history become text of their message, in that format."""
        (sign,) = shown.evidence
        why = f"{self._describe_calls()}; {sign.conclusion}"
        notice = (
            f"{why}, in which the calls of the history are written into their messages "
            "(--tool-format generic uses another one)"
        )
        abilities = Abilities(tools=True, results=self.facts.writes_results)
        changed = f"the chat template changes calls of the tool format {shown.format.name}"
        found = replace(shown, evidence=(replace(sign, conclusion=why),))
        return _check_calls(self._teach(found, notice, abilities), changed)

    def _describe_calls(self) -> str:
        if self.facts.only_shows_tools:
            return "the chat template writes no tool calls"
        if isinstance(self.facts.detection, Detection):
            return "the chat template writes tool calls without the marker that opens them"
        return "the chat template writes tool calls that cannot be read back"

    def _teach_generic(self, reason: str) -> SelectedFormat:
        notice = f"{reason}: the generic tool format is used, and explained in the prompt"
        if not self.facts.keeps_answers:
            notice += (
                "; the template changes the text of answers, including calls in it, and calls that "
                "the model writes in the same way are not read"
            )
        notice = f"{notice}. {HARDLY_CALLS}"
        head, tail = self.facts.frame
        format = replace(GENERIC, reasoning=self.facts.chat.reasoning, head=head, tail=tail)
        evidence = (Evidence("a prompt with a tool", "", f"{self.template.name}: {notice}"),)
        return self._teach(Detection(format, Origin.GENERIC, evidence), notice, Abilities())

    def select_chosen(self, format: Format) -> SelectedFormat:
        found = self.facts.detection
        own = None if isinstance(found, NoFormat) else found.format
        # One of the registry is meant by its name.
        registered = find_named(format.name, FORMATS) == format
        if own is not None and (own == format or (registered and own.name == format.name)):
            return self._teach(Detection(own, Origin.CHOSEN, ()))
        if own is None and registered and self.facts.only_shows_tools:
            signs = tuple(Marker(sign.text) for sign in SIGNS.get(format.name, ()))
            shown = find_shown(self.facts.chat, formats=(format,), signs={format.name: signs})
            if isinstance(shown, Detection):
                selected = self._try_shown(shown)
                if isinstance(selected, SelectedFormat):
                    return replace(selected, origin=Origin.CHOSEN)
        adapted = self._adapt(format, own)
        notice = f"the tool format {format.name} is explained in the prompt"
        if own is not None:
            notice += f" instead of {own.name}, which the template teaches"
        selected = self._teach(Detection(adapted, Origin.CHOSEN, ()), notice, Abilities())
        _check_prompt(selected)
        return selected

    def _adapt(self, format: Format, own: Format | None) -> Format:
        if _has_headers(format):
            raise _refuse(format, "its turns have headers that this chat template does not write")
        if own is not None and _has_headers(own):
            why = f"the chat template writes the headers of {own.name} in each turn"
            raise _refuse(format, why, _OWN_HINT)
        wanted, block = format.reasoning, self.facts.chat.reasoning
        if wanted and block and _marks(wanted) != _marks(block):
            marks = f"{_marks(wanted)} and {_marks(block)}"
            raise _refuse(format, f"its reasoning block is not that of the chat template: {marks}")
        for token in self.template.tokens.values():
            if token and any(token in text for text in format.texts):
                raise _refuse(format, f"it writes {token!r}, which begins or ends a text")
        ends = () if own is None else own.ends
        head, tail = self.facts.frame
        return replace(format, reasoning=block, head=head, tail=tail, ends=ends)


def end_turns(selected: SelectedFormat, ends: Collection[str]) -> SelectedFormat:
    """Adapts the selection to the tokens that end the generation. If a template writes such a token
    between two calls, a turn has only one call; if between content and a call, a turn with content
    has no call."""
    format, notice = selected.format, selected.notice
    for end in ends:
        format = replace(format, tail=format.tail.partition(end)[0])
        if end in format.before:
            format = replace(format, before="")
        if end in format.between:
            format = replace(format, between="", single=True)
            reason = f"{end!r}, which ends a turn, stands between two calls: a turn has one call"
            notice = f"{notice}; {reason}" if notice else f"{selected.template.name}: {reason}"
    return replace(selected, format=format, notice=notice)


def read_tool_format(given: str | os.PathLike[str] | Format) -> Format:
    """Returns a format of the registry by its name, or of a file of `formats detect --save`. Raises
    RequestError or FormatError."""
    if isinstance(given, Format):
        return given
    found = find_named(str(given), FORMATS)
    if found is not None:
        return found
    if not os.path.isfile(given):
        known = [format.name for format in FORMATS]
        close = get_close_matches(str(given), known, n=1)
        guess = f"Did you mean {close[0]}? " if close else ""
        hint = f"{guess}Known: {', '.join(known)}; or give a file with a format"
        raise RequestError(f"unknown tool format {str(given)!r}", hint=hint)
    try:
        return load_format(read_input(given).decode("utf-8"))
    except (OSError, UnicodeDecodeError) as e:
        raise RequestError(f"the tool format {given} cannot be read: {e}") from e
    except FormatError as e:
        raise FormatError(f"{given}: {e.message}", where=e.where, hint=e.hint) from e


def _has_headers(format: Format) -> bool:
    return format.contents != (Content(),) or bool(format.head or format.tail)


def _marks(block: Reasoning) -> str:
    return " ".join(block.shown)


def _check_prompt(selected: SelectedFormat) -> None:
    try:
        count = _count_examples(selected.template, selected.format)
    except RenderError as e:
        raise _refuse(selected.format, str(e)) from e
    if count < 2:  # in the instructions, and in the history
        raise _refuse(selected.format, "the chat template changes what explains it")


def _check_calls(selected: SelectedFormat, changed: str) -> SelectedFormat | NoFormat:
    """Returns the selection, or `changed` if the template changes calls that are written into
    messages."""
    count = _count_examples(selected.template, selected.format)
    return selected if count else NoFormat(changed)


def _count_examples(teacher: ChatTemplate, format: Format) -> int:
    example = write_example(replace(format, head="")).strip()  # the template writes the head
    call = show_call(EXAMPLES[0])
    properties: dict[str, Json] = {"text": {"type": "string"}, "count": {"type": "integer"}}
    text = teacher.render(
        [
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "content": "1"},
        ],
        [make_tool(EXAMPLES[0].name, "An example", properties)],
    )
    return text.count(example)


def _refuse(format: Format, why: str, hint: str = _HINT) -> RequestError:
    message = f"the tool format {format.name} cannot be taught to this model: {why}"
    return RequestError(message, hint=hint)
