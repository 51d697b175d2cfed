"""Selects the wire format of a model: the one that its chat template teaches, the one that the user
chooses, or the generic one.

The prompt always teaches the format that the grammar enforces: if the template does not teach it,
or does not describe the tools, instructions are added; see `generic`.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
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
from constrained.prompt.format_selection.message_forms import (
    MessageFormTemplate,
)
from constrained.prompt.format_selection.template_facts import detect_format, find_block, find_facts
from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.template.rendering import DETECTION_SECONDS, limit_renderings
from grammars.errors import DetectError, FormatError, RenderError
from grammars.infer.detect import Detection, Origin
from grammars.infer.probes import Evidence
from grammars.infer.reasoning import find_prompted
from grammars.infer.shown import ShownFormat, find_shown
from grammars.infer.stated import find_stated
from grammars.turn import Policy
from grammars.wire.format import Content, Format, Marker, Reasoning, find_format
from grammars.wire.format_text import load_format
from grammars.wire.formats import FORMATS, GENERIC, SIGNS

_HINT = "Leave the tool format out, or use another one (generic, hermes)"
_OWN_HINT = "Leave the tool format out: this model keeps its own"


@dataclass(frozen=True)
class SelectedFormat:
    """A wire format and the chat template that teaches it.

    Args:
        origin: how the format is known.
        notice: what the user should know of the selection; "" if nothing.
        tool_tags: the texts around tools that this project writes into prompts.
        result_tags: the texts around results in prompts.
    """

    template: ChatTemplate
    format: Format
    origin: Origin
    notice: str = ""
    tool_tags: tuple[str, ...] = ()
    result_tags: tuple[str, ...] = ()

    def guard_text(
        self, policy: Policy, messages: Sequence[Mapping[str, Any]], *, has_tools: bool
    ) -> tuple[Format, Policy]:
        """Returns format and policy of a turn whose text has nothing of what stands around tools
        and results in the prompt, which small models copy.

        Args:
            messages: of the conversation. Without tools and results, nothing changes.
            has_tools: the prompt describes tools.
        """
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
    """Selects the wire format for a chat template.

    Args:
        chosen: the user's format. If the template teaches it, the template is used unchanged; else
            instructions in the prompt teach it. None: the format that the template teaches or its
            prompt shows; the generic one, if neither is known.
        special_tokens: the texts of the model's special tokens; None: not known.

    Raises:
        RequestError: the chosen format cannot be used with this template, with the reason.
        TemplateError: the template fails on a plain message.
    """
    if chosen is not None:
        selected = _select_chosen(template, chosen)
    else:
        selected = _select_unchosen(template, special_tokens)
    teacher = selected.template
    selected = replace(selected, format=_open_as_prompted(template, selected.format))
    tool_tags = teacher.tool_tags if isinstance(teacher, GenericTemplate) else ()
    result_tags = RESULT_STEMS if _writes_results(teacher) else find_facts(template).result_tags
    return replace(
        selected, template=teacher.with_forms(), tool_tags=tool_tags, result_tags=result_tags
    )


def _open_as_prompted(template: ChatTemplate, format: Format) -> Format:
    """Returns the format with the reasoning block that the generation prompt opens."""
    if format.reasoning is None:
        return format
    style = find_facts(template).style
    block = find_prompted(style.prompt, style.turns, format.reasoning)
    return format if block is format.reasoning else replace(format, reasoning=block)


def _writes_results(template: ChatTemplate) -> bool:
    """Returns whether this project writes results into the prompt, not the chat template."""
    return isinstance(template, GenericTemplate) and template.writes_results


def _select_unchosen(
    template: ChatTemplate, special_tokens: Collection[str] | None
) -> SelectedFormat:
    try:
        return _select_own(template)
    except DetectError as e:
        reason = e.message
    if find_facts(template).describes_tools:
        try:
            return _select_message_form(template)
        except DetectError as e:
            reason += f", {e.message}"
        try:
            return _select_shown(template, _find_shown(template, special_tokens))
        except DetectError as e:
            reason += f", and {e.message}"
    head, tail = find_facts(template).frame
    format = replace(GENERIC, reasoning=find_block(template), head=head, tail=tail)
    notice = (
        f"{template.name}: {reason}: the generic tool format is used, and explained in the prompt"
    )
    if not find_facts(template).keeps_answers:
        notice += (
            "; the template changes the text of answers, including calls in it, and calls that the "
            "model writes in the same way are not read"
        )
    teacher = GenericTemplate(template, format)
    notice = f"{notice}. {HARDLY_CALLS}"
    return SelectedFormat(teacher, format, Origin.GENERIC, notice=notice)


def end_turns(selected: SelectedFormat, ends: Collection[str]) -> SelectedFormat:
    """Adapts the selection to the tokens that end the generation of the model.

    A template may write such a token between two calls, each in a separate message. Since the model
    ends its turn there, a turn has only one call. If the template writes such a token between
    content and a call, a turn with content has no call.
    """
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


def _select_own(template: ChatTemplate) -> SelectedFormat:
    """Returns the template's own format.

    Some templates write calls but do not describe the tools to the model; the prompt does so then.

    Raises:
        DetectError: as `detect_format`; or the tools are not described, and the template changes
            calls that are written in a message.
    """
    found = detect_format(template)
    if found.slip:
        return _select_corrected(template, found)
    if stated := _find_stated_instead(template, found):
        with suppress(DetectError):  # the template changes such calls
            return _select_shown(template, stated)
    if find_facts(template).describes_tools and found.drops_thoughts:
        return _select_thoughtless(template, found)
    if find_facts(template).describes_tools:
        return SelectedFormat(_give_ids(template, found.format), found.format, found.origin)
    message = "the chat template does not describe the tools"
    notice = f"{template.name}: {message}: the prompt explains them, in the model's own tool format"
    # A format that only resembles a known one may lack a part of it: the end of the calls, or calls
    # beside content. So calls of the history are written here.
    abilities = Abilities(calls=found.origin is Origin.INFERRED, results=True)
    teacher = GenericTemplate(template, found.format, abilities=abilities)
    if not abilities.calls and _count_examples(teacher) < 1:
        raise DetectError(f"{message}, and changes calls of the format {found.format.name}")
    return SelectedFormat(teacher, found.format, found.origin, notice=notice)


def _find_stated_instead(template: ChatTemplate, own: Detection) -> ShownFormat | None:
    """Returns the format that the prompt states, if the template writes calls without the marker
    that opens them there: Phi-4-mini is told to write `functools[...]`. Else None.

    The prompt is what the model follows, and only with the marker is a call no answer.
    """
    if own.format.bare is None or not find_facts(template).describes_tools:
        return None
    try:
        stated = find_stated(template.render)
    except DetectError:
        return None
    return None if stated.format.opener is None else stated


def _give_ids(template: ChatTemplate, format: Format) -> ChatTemplate:
    """Returns the template, with ids as the model writes them if it writes those of messages."""
    if find_id_pattern(format) and find_facts(template).writes_call_ids:
        return CountedIdTemplate(template, format)
    return template


def _select_thoughtless(template: ChatTemplate, found: Detection) -> SelectedFormat:
    """Selects a format without reasoning for a template that writes reasoning in an unknown way."""
    abilities = Abilities(tools=True, calls=True, results=True)
    notice = (
        f"{template.name}: the chat template writes reasoning in an unknown way: prompts leave "
        "it out, and reasoning that the model writes is content"
    )
    teacher = GenericTemplate(template, found.format, abilities=abilities)
    return SelectedFormat(teacher, found.format, found.origin, notice=notice)


def _select_corrected(template: ChatTemplate, found: Detection) -> SelectedFormat:
    """Returns the format that a template with a slip in its calls means. The prompt of the template
    shows it; calls of the history become text of their message, well-formed.

    Raises:
        DetectError: the template changes the calls.
    """
    abilities = Abilities(tools=True, results=find_facts(template).writes_results)
    teacher = GenericTemplate(template, found.format, abilities=abilities)
    if _count_examples(teacher) < 1:
        raise DetectError(f"{found.slip}, and changes calls of the format {found.format.name}")
    correction = f"its prompt shows those of {found.format.name}"
    if found.origin is Origin.INFERRED:
        correction = "each should be written like the first one"
    notice = (
        f"{template.name}: {found.slip}; {correction}, in which "
        "the calls of the history are written into their messages (correct the template, and name "
        "it with --chat-template-file)"
    )
    return SelectedFormat(teacher, found.format, found.origin, notice=notice)


def _select_message_form(template: ChatTemplate) -> SelectedFormat:
    """Returns the format in which a template writes calls that it is given in another form than
    OpenAI's.

    Raises:
        DetectError: it accepts calls in no other form.
    """
    message_form, found = find_facts(template).read_message_form()
    notice = f"{template.name}: {message_form.describe()}: conversations are written in this form"
    return SelectedFormat(
        MessageFormTemplate(template, message_form), found.format, found.origin, notice
    )


def _select_shown(template: ChatTemplate, shown: ShownFormat) -> SelectedFormat:
    """Selects the format that a prompt with tools shows. The template describes the tools; calls of
    the history become text of their message, in that format.

    Raises:
        DetectError: the template changes the calls.
    """
    abilities = Abilities(tools=True, results=find_facts(template).writes_results)
    teacher = GenericTemplate(template, shown.format, abilities=abilities)
    if _count_examples(teacher) < 1:
        raise DetectError(f"the chat template changes calls of the tool format {shown.format.name}")
    notice = (
        f"{template.name}: {_describe_calls(template)}; {shown.reason}, in which the "
        "calls of the history are written into their messages (--tool-format generic uses another "
        "one)"
    )
    return SelectedFormat(teacher, shown.format, Origin.SHOWN, notice=notice)


def _describe_calls(template: ChatTemplate) -> str:
    if find_facts(template).only_shows_tools:
        return "the chat template writes no tool calls"
    if isinstance(find_facts(template).detection, Detection):
        return "the chat template writes tool calls without the marker that opens them"
    return "the chat template writes tool calls that cannot be read back"


def _find_shown(template: ChatTemplate, special_tokens: Collection[str] | None) -> ShownFormat:
    """Finds the format that a prompt with tools shows, by a sign of a known one, or by an example.
    If the template writes calls that cannot be parsed, only an example counts.

    Raises:
        DetectError: the prompt has neither.
    """
    if not find_facts(template).only_shows_tools:
        return find_stated(template.render)
    try:
        return find_shown(template.render, special_tokens)
    except DetectError as e:
        try:
            return find_stated(template.render)
        except DetectError as doubt:
            raise DetectError(f"{e.message}, and {doubt.message}") from doubt


@limit_renderings(DETECTION_SECONDS)
def detect_shown(
    template: ChatTemplate, special_tokens: Collection[str] | None = None
) -> Detection:
    """Returns the wire format that a template teaches, or that its prompt shows.

    Args:
        special_tokens: the texts of the model's special tokens; None: not known.

    Raises:
        TemplateError, DetectError: as `detect_format`.
    """
    try:
        own = detect_format(template)
        if stated := _find_stated_instead(template, own):
            return _as_detection(template, stated)
        return own
    except DetectError as e:
        if not find_facts(template).describes_tools:
            raise
        try:
            return find_facts(template).read_message_form()[1]
        except DetectError as doubt:
            e = DetectError(f"{e.message}, {doubt.message}", hint=e.hint)
        try:
            shown = _find_shown(template, special_tokens)
        except DetectError as doubt:
            raise DetectError(f"{e.message}, and {doubt.message}", hint=e.hint) from doubt
    return _as_detection(template, shown)


def _as_detection(template: ChatTemplate, shown: ShownFormat) -> Detection:
    """Returns the format that a prompt shows, with the reason."""
    conclusion = f"{_describe_calls(template)}; {shown.reason}"
    evidence = Evidence("a prompt with a tool", "", conclusion)
    return Detection(shown.format, Origin.SHOWN, (evidence,))


def read_tool_format(given: str | os.PathLike[str] | Format) -> Format:
    """Returns a format of the registry by its name, or one that `formats detect --save` has
    written.

    Raises:
        RequestError: there is no such format or file, or the file cannot be read.
        FormatError: the file describes no format.
    """
    if isinstance(given, Format):
        return given
    found = find_format(str(given), FORMATS)
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


def _select_chosen(template: ChatTemplate, format: Format) -> SelectedFormat:
    """Selects the user's format; the template teaches it, or instructions do."""
    try:
        own = detect_format(template).format
    except DetectError:
        own = None
    # One of the registry is meant by its name.
    registered = find_format(format.name, FORMATS) == format
    if own is not None and (own == format or (registered and own.name == format.name)):
        return SelectedFormat(_give_ids(template, own), own, Origin.CHOSEN)
    if own is None and registered:
        shown = _select_confirmed(template, format)
        if shown is not None:
            return shown
    adapted = _adapt(format, own, template)
    teacher = GenericTemplate(template, adapted)
    _check_prompt(teacher)
    notice = f"{template.name}: the tool format {format.name} is explained in the prompt"
    if own is not None:
        notice += f" instead of {own.name}, which the template teaches"
    return SelectedFormat(teacher, adapted, Origin.CHOSEN, notice=notice)


def _select_confirmed(template: ChatTemplate, format: Format) -> SelectedFormat | None:
    """Selects the chosen format as the one that the prompt shows, if it shows this one."""
    if not find_facts(template).only_shows_tools:
        return None
    signs = tuple(Marker(sign.text) for sign in SIGNS[format.name])
    try:
        shown = find_shown(template.render, formats=(format,), signs={format.name: signs})
        return replace(_select_shown(template, shown), origin=Origin.CHOSEN)
    except DetectError:
        return None


def _adapt(format: Format, own: Format | None, template: ChatTemplate) -> Format:
    """Adapts the format to the template: the reasoning block, the ends of a turn."""
    if _has_headers(format):
        raise _refuse(format, "its turns have headers that this chat template does not write")
    if own is not None and _has_headers(own):
        why = f"the chat template writes the headers of {own.name} in each turn"
        raise _refuse(format, why, _OWN_HINT)
    wanted, block = format.reasoning, find_block(template)
    if wanted and block and _marks(wanted) != _marks(block):
        marks = f"{_marks(wanted)} and {_marks(block)}"
        raise _refuse(format, f"its reasoning block is not that of the chat template: {marks}")
    for token in template.tokens.values():
        if token and any(token in text for text in format.texts):
            raise _refuse(format, f"it writes {token!r}, which begins or ends a text")
    ends: tuple[str, ...] = ()
    if own is not None:
        ends = own.ends
    head, tail = find_facts(template).frame
    return replace(format, reasoning=block, head=head, tail=tail, ends=ends)


def _has_headers(format: Format) -> bool:
    return format.contents != (Content(),) or bool(format.head or format.tail)


def _marks(block: Reasoning) -> str:
    return " ".join(block.shown)


def _check_prompt(teacher: GenericTemplate) -> None:
    """Refuses a template that changes the example, or a call of the history."""
    try:
        count = _count_examples(teacher)
    except RenderError as e:
        raise _refuse(teacher.format, str(e)) from e
    if count < 2:  # in the instructions, and in the history
        raise _refuse(teacher.format, "the chat template changes what explains it")


def _count_examples(teacher: GenericTemplate) -> int:
    """Counts the example calls in a prompt with such a call in its history.

    Raises:
        RenderError: the format cannot write the example.
    """
    example = write_example(teacher.format).strip()
    name = EXAMPLES[0].name
    call = {"type": "function", "function": {"name": name, "arguments": EXAMPLES[0].arguments}}
    properties = {"text": {"type": "string"}, "count": {"type": "integer"}}
    parameters = {"type": "object", "properties": properties}
    function = {"name": name, "description": "An example", "parameters": parameters}
    text = teacher.render(
        [
            {"role": "user", "content": "Hello"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "content": "1"},
        ],
        [{"type": "function", "function": function}],
    )
    return text.count(example)


def _refuse(format: Format, why: str, hint: str = _HINT) -> RequestError:
    message = f"the tool format {format.name} cannot be taught to this model: {why}"
    return RequestError(message, hint=hint)
