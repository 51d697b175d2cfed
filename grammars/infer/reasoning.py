"""Finds the reasoning block of a chat template, and the state in which its generation prompt leaves
the model.

The text around the thought of an assistant message is the block, whatever the format of calls. If a
template never writes a thought, the block is found in its prompts.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product, takewhile
from typing import Any

from grammars.infer.probes import (
    QUESTION,
    TEXT,
    THOUGHT,
    USER,
    VALUES,
    ProbedTemplate,
    Render,
    remember,
    show_message,
)
from grammars.infer.text import (
    TAG,
    common_prefix,
    find_tag,
    find_tags,
    fold_marks,
    leading_space,
    match_opener,
)
from grammars.schema.json_values import Json
from grammars.turn import Start, State, Turn
from grammars.wire.format import (
    Fixed,
    Format,
    Literal,
    Marker,
    Reasoning,
    count_common,
    spell_fixed,
    squeeze,
)

_ANSWER = show_message(Turn(TEXT))
# What templates call the switch. Only to see both prompts; a request may set any of these.
_ON: dict[str, Json] = {
    "enable_thinking": True,
    "thinking": True,
    "thinking_mode": "enabled",
    "reasoning_effort": "high",
}
_OFF: dict[str, Json] = {"enable_thinking": False, "thinking": False}

# Blocks of templates that drop every thought: they prefill the block, describe it in the system
# message or take it out of the history. Qwen's QwQ has written `<think>` with these pads first;
# DeepSeek's `<think>` has none. Apriel 1.6 opens its block in words.
_KNOWN = (
    Reasoning(Marker("<think>"), Marker("</think>"), pad_open="\n", pad_close="\n", after="\n\n"),
    Reasoning(
        Marker("Here are my reasoning steps:"),
        Marker("[BEGIN FINAL RESPONSE]"),
        pad_open="\n",
        pad_close="\n",
        after="\n",
    ),
)

_TAG = rf"(?:{TAG})"
# What a prompt may open a block with, each with the closer that belongs to it.
_OPENED: tuple[tuple[str, str], ...] = (
    (r"<([a-z]\w*)>", r"</\1>"),
    (r"\[([A-Z_]+)\]", r"[/\1]"),
    (r"<\|(\w+?)_(?:start|begin)\|>", r"<|\1_end|>"),
    (r"<\|(?:start|begin)_(\w+)\|>", r"<|end_\1|>"),
    (r"<\|(?:START|BEGIN)_(\w+)\|>", r"<|END_\1|>"),
)
# What a prompt may close at once, too; open it would be the header of a turn (`<|turn>model`).
_CLOSED = (*_OPENED, (r"<\|(\w+)>\w+", r"<\1|>"))  # <|channel>thought, <channel|>
# `/think`; ` to=self<|message|>`; `<|channel|>analysis<|message|>`; `thoughts<|message|>`;
# `thought"}<|body|>` after `{"kind": "`; `<|mode:think|>`
_HEADER_NAME = re.compile(
    rf"[^\s\w<>\[\]]\w{{2,20}}\s*|\s*(?:\w+[=:]|{_TAG})?\w+[\"')\]}}]*{_TAG}\s*|{_TAG}\s*"
)
_TAGS_AND_WORD = rf"{_TAG}(?P<word>\w+){_TAG}"  # Kimi K3: <|open|>think<|sep|>
_TAG_WITH_ATTRIBUTES = r"<\w[\w:.-]*(?:\s+[\w:.-]+=[^\s<>]+)+>"  # <think effort="high">
_TAG_AND_WORD = rf"{_TAG}\w+"  # Gemma 4: <|channel>thought

_WORD = re.compile(r"[^\W\d_]{3,}|[^\W\d_\x00-\x7f]{2,}")  # 思考 is one, too
# `Thought:`, `Réflexion :`, `**Thinking**`, `【思考】`
_SIGN, _FIRST_SIGN = r"[^\w\s\"'`{}<>]", r"[^\w\s\"'`{}<>\])】〕》」』»]"
_WORD_OPENER = re.compile(
    rf"(?P<opener>{_FIRST_SIGN}{{0,4}}[^\W\d_][\w' ]{{1,30}}{_SIGN}{{1,4}})(?P<pad>\s*)$"
)


def probe(render_chat: Render) -> ProbedTemplate:
    """Returns a template with the reasoning block that it writes."""
    chat = ProbedTemplate(remember(render_chat), None)
    return replace(chat, reasoning=find_reasoning(chat))


def find_reasoning(chat: ProbedTemplate) -> Reasoning | None:
    """Returns the reasoning block that a template writes or prefills; None if it has none.

    Markers carry no white space at their ends; the white space goes to the pads. If a thought is a
    separate message, its closer includes the common beginning of the next message's header.
    """
    prompt = chat.prompt.rstrip()
    surroundings: list[_Surroundings] = []
    for kwargs, messages in product(({}, _ON), _list_messages(chat)):
        written = [*filter(None, (_surround(chat, message, kwargs) for message in messages))]
        found = {place: _read_block(place, prompt) for place in written}
        blocks = [block for block in found.values() if block is not None]
        if any(block is not None and place.is_late for place, block in found.items()):
            return _find_opened(chat)  # a thought after text or calls is no block of a format
        if len({block.closer for block in blocks}) > 1:
            return None  # only the next text closes it, which no format can describe
        if blocks:
            return replace(blocks[0], empty=_find_empty(chat, blocks[0], kwargs))
        surroundings += written
    return (
        _find_continued(surroundings, prompt)
        or _find_worded(chat)
        or _find_opened(chat)
        or _find_known(chat)
    )


def _show_thought(text: str) -> list[dict[str, Any]]:
    """Returns messages with a thought and a text in all forms that clients and templates use: in a
    field, in parts (Mistral), in blocks (Apertus)."""
    parts = [{"type": "thinking", "thinking": THOUGHT}, {"type": "text", "text": text}]
    blocks = [{"type": "thoughts", "text": THOUGHT}, {"type": "response", "text": text}]
    return [
        {"content": text, "reasoning_content": THOUGHT},
        {"content": text, "reasoning": THOUGHT},
        {"content": text, "thinking": THOUGHT},
        {"content": parts},
        {"content": {"blocks": blocks}},
    ]


def _list_messages(chat: ProbedTemplate) -> Iterator[list[dict[str, Any]]]:
    """Yields messages with a thought and a text and a call, or one of the two, in every form."""
    call = show_message(Turn(calls=(chat.call,)))
    for full, empty in zip(_show_thought(TEXT), _show_thought(""), strict=True):
        yield [call | full, _ANSWER | full, call | empty]


@dataclass(frozen=True)
class _Surroundings:
    head: str
    tail: str
    # in front of the text of messages without a thought: of the user, the assistant
    headers: tuple[str, str]

    @property
    def is_late(self) -> bool:
        """True if text or a call of the turn stands before the thought."""
        before = self.head.rpartition(USER)[2]
        return TEXT in before or VALUES[0] in before


def _surround(
    chat: ProbedTemplate, message: Mapping[str, Any], kwargs: Mapping[str, Any]
) -> _Surroundings | None:
    head, thought, tail = chat.render(message, **kwargs).partition(THOUGHT)
    if not thought:
        return None
    plain = chat.render(_ANSWER, **kwargs)
    of_user, of_assistant = plain.partition(USER)[0], plain.partition(TEXT)[0]
    return _Surroundings(head, tail, headers=(of_user.rstrip(), of_assistant.rstrip()))


def _find_empty(chat: ProbedTemplate, block: Reasoning, kwargs: Mapping[str, Any]) -> str:
    """Returns the empty block before an answer without a thought, if its opener is another one; or
    ""."""
    text = chat.render(_ANSWER, **kwargs).rpartition(USER)[2]
    opener = match_opener(block.opener.text).pattern
    written = re.search(rf"{opener}\s*{re.escape(block.closer.text)}", text)
    is_other = written is not None and not written[0].startswith(block.opener.text)
    return written[0] if written and is_other else ""


def _find_worded(chat: ProbedTemplate) -> Reasoning | None:
    """Finds a block that a word opens, without a tag: `Thought: ` up to the end of the line. It
    closes with what content and calls have in common after it."""
    for kwargs, (_, text, call) in product(({}, _ON), _list_messages(chat)):
        alone = [*filter(None, (_surround(chat, message, kwargs) for message in (text, call)))]
        prompt = chat.render(opening=True, **kwargs) if alone else ""
        if alone and (block := _read_worded(alone, prompt)):
            return block
    return None


def _find_continued(written: Iterable[_Surroundings], prompt: str) -> Reasoning | None:
    """Finds a block between headers of the prompt, which it continues: HyperCLOVAX's
    `assistant/think`."""
    if not prompt:
        return None
    for surroundings in written:
        name = surroundings.head.rpartition(prompt)[2]
        end, found, _ = surroundings.tail.partition(prompt)
        is_tags_only = bool(find_tags(end)) and not re.sub(_TAG, "", end).strip()
        if found and _HEADER_NAME.fullmatch(name) and is_tags_only:
            return Reasoning(
                Marker(name.rstrip()),
                Marker(end.lstrip() + prompt),
                pad_open=name[len(name.rstrip()) :],
                pad_close=leading_space(end),
                next_opener=prompt,
            )
    return None


def _find_opened(chat: ProbedTemplate) -> Reasoning | None:
    """Finds a block that a prompt opens, or closes, too, with a tag that the history does not have:
    KAT's `<judge>`."""
    history = (chat.answer(Turn(TEXT)) or "") + (chat.answer(Turn(calls=(chat.call,))) or "")
    excluded = (*(block.opener.text for block in _KNOWN), *find_tags(history))
    for kwargs in (_ON, {}, _OFF):
        opened, plain = (chat.render(opening=on, **kwargs) for on in (True, False))
        prompt = find_prompt(opened, plain)
        block = _read_opened(prompt) or _read_closed(prompt)
        if block is not None and block.opener.text not in excluded:
            return block
    return None


def _find_known(chat: ProbedTemplate) -> Reasoning | None:
    prompts = [chat.render(opening=True, **kwargs) for kwargs in (_ON, {}, _OFF)]
    # Granite 3.3 describes the block only where there are no tools.
    prompts.append(chat.render(with_tools=False, opening=True, **_ON))
    for block in _KNOWN:
        is_opened = any(block.opener.text in prompt for prompt in prompts)
        is_closed = any(prompt.rstrip().endswith(block.closer.text) for prompt in prompts)
        if is_opened or is_closed or _removes(chat, block):
            return _read_pads(block, prompts)
    return None


def _removes(chat: ProbedTemplate, block: Reasoning) -> bool:
    content = f"{block.opener.text}{THOUGHT}{block.closer.text}{TEXT}"
    first, second = show_message(Turn(content)), show_message(Turn("Yes"))
    # LFM2.5 keeps the last thought of a conversation, so another message follows.
    text = chat.render(first, QUESTION, second, QUESTION)
    return TEXT in text and THOUGHT not in text


def _read_block(surroundings: _Surroundings, prompt: str) -> Reasoning | None:
    """Returns the block around a thought; None if it is a message of its own, after which the
    prompt comes again."""
    head, tail = surroundings.head.rstrip(), surroundings.tail.lstrip()
    opening = re.search(f"{_TAGS_AND_WORD}$", head)
    closing = re.match(_TAGS_AND_WORD, tail)
    if not (opening and closing and opening["word"] == closing["word"]):
        opening = re.search(f"(?:{_TAG}|{_TAG_WITH_ATTRIBUTES}|{_TAG_AND_WORD})$", head)
        closing = re.match(_TAG, tail)
    # What opens a message of any kind opens no block.
    if opening and any(header.endswith(opening[0]) for header in surroundings.headers):
        opening = _find_named_opener(surroundings)
    if not (opening and closing):
        return None
    if prompt.strip() and tail[closing.end() :].lstrip().startswith(prompt.strip()):
        return None
    return Reasoning(
        Marker(opening[0]),
        Marker(closing[0]),
        pad_open=surroundings.head[len(head) :],
        pad_close=leading_space(surroundings.tail),
        after=leading_space(tail[closing.end() :]),
    )


def _read_worded(places: Sequence[_Surroundings], prompt: str) -> Reasoning | None:
    """Returns the block that a word opens around a thought in turns of several kinds. A closer
    without a word is only the line break: it means nothing elsewhere, and a thought ends with the
    first one."""
    opening = _find_word_opener(places, prompt)
    following = common_prefix(*(place.tail for place in places))
    sign = following.strip() if len(places) > 1 else ""
    if not _WORD.search(sign):
        sign = ""
    space = leading_space(following)
    # Words in the middle of a line may also occur in a thought.
    is_apart = "\n" in space or (bool(sign) and not sign[0].isalnum())
    if opening is None or not is_apart:
        return None
    pad_open = opening["pad"]
    opener = Marker(places[0].head.rstrip()[-len(opening["opener"]) :])
    if not sign:
        return Reasoning(opener, Literal(space), pad_open=pad_open)
    after = following[len(following.rstrip()) :]
    return Reasoning(opener, Marker(sign), pad_open=pad_open, pad_close=space, after=after)


def _find_word_opener(places: Sequence[_Surroundings], prompt: str) -> re.Match[str] | None:
    """Returns the opener of a block, after the prompt or at its end; None if it is no word, or any
    header."""
    head = places[0].head
    if any(place.head != head for place in places):
        return None
    lead = head.removeprefix(prompt)
    if lead == head or not lead.strip():
        opening = _WORD_OPENER.search(fold_marks(head))
    else:
        opening = _WORD_OPENER.fullmatch(fold_marks(lead.lstrip()))
    headers = places[0].headers
    if opening is None or find_tag(opening["opener"]):
        return None
    is_header = any(fold_marks(header).endswith(opening["opener"]) for header in headers)
    return None if is_header else opening


def _find_named_opener(surroundings: _Surroundings) -> re.Match[str] | None:
    """Returns the opener with a name between two tags, if content has another name between the same
    tags and one tag closes both: `<|channel|>think<|msg|>` and `<|channel|>say<|msg|>`. None if it
    is a separate message, after which the header of the turn follows again."""
    head, tail = surroundings.head.rstrip(), surroundings.tail.lstrip()
    opening = re.search(f"{_TAGS_AND_WORD}$", head)
    closing = re.match(_TAG, tail)
    if not (opening and closing):
        return None
    following, found, _ = tail[closing.end() :].partition(TEXT)
    without = head[: opening.start()] + following
    is_left_out = squeeze(without) == squeeze(surroundings.headers[1])
    return opening if found and is_left_out else None


def _read_opened(prompt: str, tags: Iterable[tuple[str, str]] = _OPENED) -> Reasoning | None:
    """Returns the block whose opener the prompt ends with. The text before and after the closer,
    which such a template does not show, is white space if white space follows the opener, as in the
    known blocks."""
    head = prompt.rstrip()
    pad = prompt[len(head) :]
    for opener, closer in tags:
        if tag := re.search(f"{opener}$", head):
            own = Marker(tag.expand(closer))
            return Reasoning(Marker(tag[0]), own, pad_open=pad, pad_close=pad, after=pad * 2)
    return None


def _read_closed(prompt: str) -> Reasoning | None:
    """Returns the empty block that a prompt ends with, so that the model does not think. White
    space in front of the closer is not known then."""
    end = prompt.rstrip()
    closer = "".join(find_tags(end)[-1:])
    block = _read_opened(end.removesuffix(closer), _CLOSED)
    if block is None or block.closer.text != closer or not end.endswith(closer):
        return None
    return replace(block, pad_close="", after=prompt[len(end) :])


def _read_pads(block: Reasoning, prompts: list[str]) -> Reasoning:
    for prompt in prompts:
        if opened := re.search(rf"{re.escape(block.opener.text)}(\s*)$", prompt):
            if not opened[1]:  # it writes the block without pads
                return replace(block, pad_open="", pad_close="", after="")
            block = replace(block, pad_open=opened[1])
        if closed := re.search(rf"{re.escape(block.closer.text)}(\s+)$", prompt):
            block = replace(block, after=closed[1])
    return block


def find_state(
    with_prompt: str, without_prompt: str, format: Format, *, calls: int | None = None
) -> State:
    """Returns the state in which the generation prompt leaves the turn. `calls`: of the
    conversation."""
    block = format.reasoning
    prompt = find_prompt(with_prompt, without_prompt)
    state = State(calls=calls)
    if block is not None:
        block = replace(block, opener=find_opener(prompt, block))
        state = replace(_find_block(prompt or _find_end(with_prompt, block), block), calls=calls)
    if state.start is Start.OPEN:
        return state
    state = replace(state, lead=_find_lead(prompt, format))
    late = format.late_header
    if late is None or prompt or with_prompt.rstrip().endswith(late.text.rstrip()):
        return state
    return replace(state, header=late.text)


def find_prompt(with_prompt: str, without_prompt: str) -> str:
    """Returns the text that only the first of the two renders of a conversation has."""
    return with_prompt[count_common(with_prompt, without_prompt) :]


def _find_end(prompt: str, block: Reasoning) -> str:
    """Returns the marker of a template that opens the turn even without a generation prompt; or
    ""."""
    end = prompt.rstrip()
    for marker in block.markers:
        if end.endswith(marker):
            return prompt[len(end) - len(marker) :]
    return ""


def _find_block(prompt: str, block: Reasoning) -> State:
    opened, closed = prompt.rfind(block.opener.text), prompt.rfind(block.closer.text)
    if not isinstance(block.closer, Marker):
        closed = _find_break(prompt, block, opened)
    if opened > closed:
        written = prompt[opened + len(block.opener.text) :]
        return State(Start.OPEN, _find_missing(block.pad_open, written))
    if closed >= 0:
        written = prompt[closed + len(block.closer.text) :]
        return State(Start.CLOSED, _find_missing(block.after, written))
    return State()


def find_opener(prompt: str, block: Reasoning) -> Marker:
    """Returns the opener of a block as a prompt writes it. A number or a level of effort may be
    another one than in the block: `<think effort="low">`, `<think budget="512">`. Other values tell
    thoughts from answers: `<msg kind="thought">`."""
    written = [found[0] for found in match_opener(block.opener.text).finditer(prompt)]
    return Marker(written[-1]) if written else block.opener


def find_prompted(prompt: str, written: Sequence[str], block: Reasoning) -> Reasoning:
    """Returns the block that a prompt opens, if that is another one than the `block` of the
    history: `<think_fast>` where thoughts of the history stand between `<think>` and `</think>`.
    `written`: turns of the history, whose tags open no other block."""
    head = prompt.rstrip()
    tag = next((tag for tag in reversed(find_tags(head)) if head.endswith(tag)), "")
    is_own = tag in (find_opener(tag, block).text, block.closer.text)
    if not tag or is_own or any(tag in text for text in written):
        return block
    opener, closer = block.opener.text, block.closer.text
    if re.split(r"\w+", opener) == re.split(r"\w+", tag) and isinstance(block.closer, Marker):
        words = zip(re.findall(r"\w+", opener), re.findall(r"\w+", tag), strict=True)
        other = [(own, new) for own, new in words if own != new]
        if len(other) == 1 and re.findall(r"\w+", closer).count(other[0][0]) == 1:
            return replace(block, opener=Marker(tag), closer=Marker(closer.replace(*other[0])))
    return _read_opened(prompt) or block


def _find_break(prompt: str, block: Reasoning, opened: int) -> int:
    """Returns the offset of a closer of white space, after the opener and its pad; -1 if there is
    none."""
    if opened < 0:
        return -1
    following = opened + len(block.opener.text)
    if prompt.startswith(block.pad_open, following):
        following += len(block.pad_open)
    return prompt.find(block.closer.text, following)


def _find_lead(prompt: str, format: Format) -> str:
    """Returns the part of content or a call that the prompt has written: `>>>` of `>>>all`; or
    ""."""
    heads = [content.opener for content in format.contents]
    if format.opener is not None:  # else a call begins as any JSON does
        fixed = takewhile(lambda node: isinstance(node, Fixed), (*format.opening, *format.call))
        heads.append(spell_fixed(list(fixed)))
    for head in heads:
        for length in range(len(head), 1, -1):  # a single character could be anything
            lead = head[:length]
            if lead.strip() and prompt.endswith(lead):
                return lead
    return ""


def _find_missing(pad: str, written: str) -> str:
    """Returns the part of a pad that the prompt leaves to the model."""
    return pad[len(written) :] if pad.startswith(written) else ""


def count_calls(messages: Sequence[Mapping[str, Any]]) -> int:
    return sum(len(message.get("tool_calls") or ()) for message in messages)
