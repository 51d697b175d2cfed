"""Chat templates against the whole stack: is a turn that a template writes what is enforced?

    python -m benchmarks.faithful TEMPLATE ... [--walks 6]

A TEMPLATE is a file in Jinja, or a JSON Lines file whose rows have `name` and `template`. For each:
its format, the source of that, and the results for turns that the template itself writes after its
prompts: calls with values of all kinds, several calls, content and reasoning with calls, after a
question, a system message and a result, with thinking on, off and unset. Counted are turns that

- are refused: the mask does not take the text;
- are misread: the parser reads something else than was meant;
- are respelled: the renderer writes the turn in another way than the template;
- call nothing: a random text that the mask takes where a call is required is read as no call, or
  as one that is not valid.

What a template leaves out (content with a call, null) is not expected back, nor text after an end
of the turn: that is another turn. Turns that the template refuses, and those that the renderer
refuses because they would be read as something else, are left out. A format that is not the
template's own (generic, shown) is tried likewise, in the template that teaches it. A template that
fails on every conversation gets a line with the error: no format can be served with it.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.inputs.rendered import SWITCHES, align, find_after, find_end
from benchmarks.inputs.sources import read_templates
from benchmarks.inputs.stage import DRAW, Adversary
from constrained.agent.model import Model
from constrained.engine.scripted import ScriptedEngine
from constrained.engine.vocabulary.vocabulary import byte_vocabulary
from constrained.errors import Error, TemplateError
from constrained.model.compile.compiled_turn import CompiledTurn
from constrained.prompt.format_selection.selection import select_format
from constrained.prompt.job import Job
from constrained.prompt.template.chat_template import ChatTemplate
from constrained.prompt.template.special_tokens import render_prompt
from grammars.errors import RenderError, ToolError
from grammars.infer.detection import Origin
from grammars.parse.parser import parse
from grammars.parse.render import render
from grammars.turn import Start, ToolCall, Turn
from grammars.wire.format import Format, find_named
from grammars.wire.formats import FORMATS

Message = dict[str, Any]
VERDICTS = ("refused", "misread", "respelled", "calls nothing")
COLUMNS = ("turns", "left out", *VERDICTS)
_MAX_SHOWN_FAULTS = 8  # of each template
_QUESTION: Message = {"role": "user", "content": "What is to be done?"}
_OPENED = "write_note"  # the tool whose texts may hold markers
_THOUGHT, _TEXT = "I look it up first.", "Let me see."


def _tool(name: str, properties: Mapping[str, Any], required: Sequence[str]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": dict(properties), "required": list(required)}
    parameters["additionalProperties"] = False
    function = {"name": name, "description": "A tool", "parameters": parameters}
    return {"type": "function", "function": function}


_ANY_OBJECT = {"type": "object", "additionalProperties": True}
TOOLS = [
    _tool(_OPENED, {"text": {"type": "string"}, "label": {"type": "string"}}, ["text"]),
    _tool(
        "compute",
        {"count": {"type": "integer"}, "ratio": {"type": "number"}, "exact": {"type": "boolean"}},
        ["count"],
    ),
    _tool(
        "submit",
        {"order": _ANY_OBJECT, "items": {"type": "array"}, "until": {"type": ["string", "null"]}},
        [],
    ),
    _tool("ping", {}, []),
]
_TEXTS = (
    "Rome",
    "",
    " ",
    "\n",
    "a\nb\n\n  c\n",
    "  padded  ",
    'it\'s "so" \\ `x` \\n',
    "Zürich 東京 🌧 \u00a0",
    "a < b && {c} [d] </x> <y> & 1 > 0 &amp; %s {{ e }}",
    "3",
    "true",
    "null",
    '{"a": 1}',
    "key: value",
    "a, b = c)",
    "tab\tand\rreturn",
    "x" * 300,
)
_VALUES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("compute", {"count": 0}),
    ("compute", {"count": -(2**53) - 1, "ratio": 1e-07, "exact": False}),
    ("compute", {"exact": True, "ratio": 3.0, "count": 12}),
    ("submit", {}),
    ("submit", {"order": {}, "items": []}),
    ("submit", {"order": {"z": 'x"y\n', "a": {"b": [False, "ü'", {}]}, "B": None}}),
    ("submit", {"items": [1, "a'b", [True, None], {"k": 0.5}, ""], "until": None}),
    ("submit", {"until": "null"}),
    ("submit", {"until": None}),
    ("ping", {}),
)


@dataclass(frozen=True)
class Trial:
    """A turn of the history, and the prompt that it stands after."""

    kind: str
    before: tuple[Message, ...]
    turn: Turn
    kwargs: Mapping[str, Any]

    @property
    def message(self) -> Message:
        """The turn in OpenAI's form."""
        message: Message = {"role": "assistant", "content": self.turn.content}
        if self.turn.reasoning:
            message["reasoning_content"] = self.turn.reasoning
        if self.turn.calls:
            message["tool_calls"] = [_show(call) for call in self.turn.calls]
        return message


def _show(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


@dataclass(frozen=True)
class Fault:
    """What is wrong with a trial."""

    verdict: str
    kind: str
    text: str
    detail: str


def list_trials(markers: Sequence[str]) -> Iterator[Trial]:
    """Yields the turns to try.

    Args:
        markers: texts that the format writes, which go into strings.
    """
    unset = SWITCHES["unset"]
    asked = (_QUESTION,)
    for text in (*_TEXTS, *(f"a {marker} b" for marker in markers)):
        calls = _number([("write_note", {"text": text})])
        yield Trial(f"the text {text[:24]!r}", asked, Turn(calls=calls), unset)
    for name, arguments in _VALUES:
        calls = _number([(name, arguments)])
        yield Trial(json.dumps(arguments), asked, Turn(calls=calls), unset)
    for where, before in _list_conversations().items():
        for switch, kwargs in SWITCHES.items():
            for kind, turn in _list_shapes().items():
                yield Trial(f"{kind}, {where}, thinking {switch}", before, turn, kwargs)


def _list_shapes() -> dict[str, Turn]:
    one = _number([("write_note", {"label": "b", "text": "a"})])
    two = _number([("compute", {"count": 1}), ("write_note", {"text": "two\nlines"})])
    three = _number([("ping", {}), ("ping", {}), ("submit", {"items": ["a", {}]})])
    shapes = {
        "content": Turn(_TEXT),
        "content of two lines": Turn("One.\n\n- Two: ü."),
        "content and reasoning": Turn(_TEXT, _THOUGHT),
    }
    for kind, calls in {"a call": one, "two calls": two, "three calls": three}.items():
        shapes[kind] = Turn(calls=calls)
        shapes[f"content and {kind}"] = Turn(_TEXT, calls=calls)
        shapes[f"reasoning and {kind}"] = Turn("", _THOUGHT, calls=calls)
        shapes[f"reasoning, content and {kind}"] = Turn(_TEXT, _THOUGHT, calls=calls)
    return shapes


def _list_conversations() -> dict[str, tuple[Message, ...]]:
    call = ToolCall("ping", {}, id="abcdefgh9")  # no id of a trial
    result: Message = {"role": "tool", "tool_call_id": call.id, "name": "ping", "content": "pong"}
    asked: Message = {"role": "assistant", "content": "", "tool_calls": [_show(call)]}
    return {
        "behind a question": (_QUESTION,),
        "behind a system message": ({"role": "system", "content": "Be brief."}, _QUESTION),
        "behind a result": (_QUESTION, asked, result),
    }


def _number(calls: Sequence[tuple[str, dict[str, Any]]]) -> tuple[ToolCall, ...]:
    numbered: list[ToolCall] = []
    for number, (name, arguments) in enumerate(calls):
        numbered.append(ToolCall(name, arguments, id=f"abcdefgh{number}"))
    return tuple(numbered)


class Bench:
    """A template on a model without weights.

    Args:
        source: the template.
        tokens: its tokens, such as `bos_token`.
    """

    def __init__(self, source: str, *, name: str, **tokens: str):
        template = ChatTemplate(source, name=name, **tokens)
        self.teaching = select_format(template)
        self._logits: Any = None
        # The model has no special tokens, which could confirm a format that its prompt only shows.
        shown: Format | None = None
        if self.teaching.origin is Origin.SHOWN:
            shown = find_named(self.teaching.format.name, FORMATS)
        engine = ScriptedEngine(
            byte_vocabulary(()),
            lambda sequence, given: self._logits(sequence, given),
            context_length=2**20,
        )
        self._model = Model(engine, template, draft=False, tool_format=shown)

    def compile(self, trial: Trial, tool_choice: str) -> CompiledTurn:
        """Returns the turn after the prompt of a trial."""
        job = Job(trial.before, TOOLS, tool_choice=tool_choice, template_kwargs=dict(trial.kwargs))
        return self.compile_job(job)

    def compile_job(self, job: Job) -> CompiledTurn:
        """The turn of a job."""
        return self._model.compile(job)

    def write(self, trial: Trial, turn: CompiledTurn) -> str | None:
        """Returns what the template writes after the prompt, without the end of turn; None where it
        refuses the conversation, or writes it nowhere after the prompt."""
        try:
            plain = self._render(trial, trial.before, turn)
            whole = self._render(trial, [*trial.before, trial.message], turn)
        except Error:
            return None
        is_plain = turn.state.start is Start.PLAIN
        block = None if is_plain else turn.format.reasoning
        after = find_after(self.teaching, trial.before, TOOLS, plain, **trial.kwargs)
        question = _find_last(trial.before)
        text = align(whole, turn.prompt.text, block, after=after, question=question)
        ends = turn.format.ends or (find_end(self.teaching),)
        # Some templates write one more at the end of a conversation, whatever it ends with.
        shown = [end for end in ends if end and end in text]
        rest = max((text.rpartition(end)[2].strip() for end in shown), default="")
        if rest and plain.rstrip().endswith(rest):
            text = text.rstrip().removesuffix(rest)
        while any(end and text.rstrip().endswith(end) for end in ends):
            for end in ends:
                text = text.rstrip().removesuffix(end)
        text = text.removesuffix(turn.format.tail)
        is_open = block is not None and turn.state.start is Start.OPEN
        if block is not None and is_open and text.lstrip().startswith(block.closer.text):
            return f"ok{text}"  # the thought is empty
        if block is not None and is_open and block.closer.text not in text.partition(_OPENED)[0]:
            return f"{turn.state.pad}ok{block.pad_close}{block.closer.text}{block.after}{text}"
        return text

    def _render(self, trial: Trial, messages: Sequence[Message], turn: CompiledTurn) -> str:
        """The conversation as it enters a prompt: with the markers of the format protected, since
        templates look for some of them in messages."""
        block = turn.format.reasoning
        prompt = render_prompt(
            self.teaching.template,
            messages,
            TOOLS,
            markers=turn.format.markers,
            keep=() if block is None else block.markers,
            add_generation_prompt=False,
            variables=trial.kwargs,
        )
        return prompt.text

    def judge(self, trial: Trial) -> list[Fault] | None:
        """Returns what is wrong with a trial; None where there is no such turn: the template or the
        renderer refuses it, or the prompt has closed the reasoning."""
        try:
            turn = self.compile(trial, "auto")
        except Error as error:
            return [Fault("refused", trial.kind, "", str(error))]
        if turn.state.start is Start.CLOSED and trial.turn.reasoning:
            return None
        text = self.write(trial, turn)
        meant = _find_meant(trial.turn, text or "")
        spelled = turn.format.contents[0].spell(trial.turn.content)
        if turn.format.escapes_content and spelled in (text or ""):
            meant = Turn(trial.turn.content, meant.reasoning, meant.calls)
        over = None if text is None else _end_after_content(text, meant, turn.format.ends)
        if over is not None:
            text, meant = over, Turn(meant.content, meant.reasoning)
        if text is None:
            return None
        read = parse(text, turn.format, turn.tools, turn.state)
        own = _render(meant, turn, default=read.reasoning)
        if own is None:
            return None
        faults: list[Fault] = []
        choices = ["auto"]
        if meant.calls and not meant.content:
            choices.append("required")
        for choice in choices:
            compiled = turn if choice == "auto" else self.compile(trial, choice)
            taken = _match(text.rstrip(), compiled)
            if taken is not None:
                faults.append(Fault("refused", trial.kind, text, f"{choice}: behind {taken!r}"))
        if difference := _compare(read, meant):
            faults.append(Fault("misread", trial.kind, text, difference))
        if _condense(own, turn) != _condense(_drop_empty_block(text, turn), turn):
            faults.append(Fault("respelled", trial.kind, text, repr(own)))
        return faults

    def walk(self, trial: Trial, count: int) -> Iterator[Fault]:
        """Random turns where a call is required."""
        try:
            turn = self.compile(trial, "required")
        except Error:
            return
        for seed in range(count):
            self._logits = Adversary(turn, seed)
            (reply,) = self._model.complete([turn], max_tokens=2000, sampling=DRAW)
            wrong = [call for call in reply.calls if not call.valid]
            if not reply.calls or wrong or reply.unfinished:
                yield Fault("calls nothing", trial.kind, reply.content, repr(reply))


def _find_last(messages: Sequence[Message]) -> str:
    return messages[-1]["content"]


def _find_meant(turn: Turn, text: str) -> Turn:
    """Returns the turn without what the template has left out."""
    calls: list[ToolCall] = []
    for call in turn.calls:
        kept = {k: v for k, v in call.arguments.items() if v is not None or k in text}
        calls.append(ToolCall(call.name, kept, id=call.id))
    content = turn.content if turn.content in text else ""
    reasoning = turn.reasoning if turn.reasoning in text else ""
    return Turn(content, reasoning, calls=tuple(calls))


def _end_after_content(text: str, meant: Turn, ends: Sequence[str]) -> str | None:
    """Returns the text up to its content, where an end of the turn stands after that and in front
    of any call: what follows is another turn. None where no end stands there."""
    if not meant.content:
        return None
    before, found, after = text.partition(meant.content)
    names = [after.find(call.name) for call in meant.calls if call.name in after]
    places = [after.find(end) for end in ends if end and end in after]
    if not places or min(places) > min(names, default=len(after)):
        return None
    return before + found + after[: min(places)]


def _drop_empty_block(text: str, turn: CompiledTurn) -> str:
    """Returns a turn without the empty block that it may begin with, which the renderer leaves
    out."""
    block = turn.format.reasoning
    return text if block is None else text.lstrip().removeprefix(block.empty)


def _render(meant: Turn, turn: CompiledTurn, *, default: str) -> str | None:
    """Returns the turn as the renderer writes it; None where it could be read as something else.

    Args:
        default: the thought that stands there where none is meant: some templates write one.
    """
    if not meant.reasoning:
        meant = Turn(meant.content, default, meant.calls)
    if turn.state.start is Start.CLOSED or turn.format.reasoning is None:
        meant = Turn(meant.content, "", meant.calls)
    try:
        return render(meant, turn.format, turn.tools, turn.state)
    except (RenderError, ToolError):
        return None


def _condense(text: str, turn: CompiledTurn) -> str:
    """Returns the text without white space, and without an empty block of reasoning."""
    block, condensed = turn.format.reasoning, "".join(text.split())
    if block is not None:
        condensed = condensed.removeprefix(block.opener.text + block.closer.text)
    return condensed


def _match(text: str, turn: CompiledTurn) -> str | None:
    """Returns what the mask takes of a text, if that is not all; None where it is a whole turn."""
    assert turn.matcher is not None
    matcher = turn.matcher.fork()
    tokens = turn.vocabulary.encode_marked(text, turn.markers)
    count = matcher.count_accepted(tokens)
    if count == len(tokens):
        for token in tokens:
            matcher.commit(token)
        if matcher.is_complete:
            return None
    return turn.vocabulary.text(tokens[:count]).decode(errors="replace")


def _compare(read: Turn, meant: Turn) -> str:
    """Returns how a turn differs from what was meant; "" if it does not."""
    got = [(call.name, call.arguments) for call in read.calls]
    wanted = [(call.name, call.arguments) for call in meant.calls]
    if got != wanted:
        return f"calls {got}"
    if read.content.strip() != meant.content.strip():
        return f"content {read.content!r}"
    if meant.reasoning and read.reasoning.strip() != meant.reasoning:
        return f"reasoning {read.reasoning!r}"
    return f"unfinished {read.unfinished!r}" if read.unfinished else ""


def describe(bench: Bench, name: str, *, walks: int) -> Counter[str]:
    """Prints the line of a template; returns its counts."""
    selected = bench.teaching
    counts: Counter[str] = Counter()
    faults: list[Fault] = []
    for trial in list_trials(selected.format.markers):
        found = bench.judge(trial)
        counts["left out" if found is None else "turns"] += 1
        faults += found or ()
    for where, before in _list_conversations().items():
        for switch, kwargs in SWITCHES.items():
            trial = Trial(f"{where}, thinking {switch}", before, Turn(), kwargs)
            faults += bench.walk(trial, walks)
    counts.update(fault.verdict for fault in faults)
    kind = f"{selected.format.name} ({selected.origin.value})"
    cells = "".join(f"{counts[column]:>15}" for column in COLUMNS)
    print(f"{name:<32}{kind:<28}{cells}", flush=True)
    for fault in faults[:_MAX_SHOWN_FAULTS]:
        excerpt = f"{fault.text[:160]!r}: {fault.detail[:300]}"
        print(f"    {fault.verdict}: {fault.kind}: {excerpt}")
    return counts


def main() -> int:
    """Prints a table; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description="Chat templates against the whole stack.")
    parser.add_argument("paths", nargs="+", type=Path, metavar="TEMPLATE")
    parser.add_argument("--walks", type=int, default=6, help="random turns behind each prompt")
    options = parser.parse_args()
    print(f"{'template':<32}{'format':<28}" + "".join(f"{c:>15}" for c in COLUMNS))
    totals: Counter[str] = Counter()
    for path in options.paths:
        for name, source, tokens in read_templates(path):
            try:
                bench = Bench(source, name=name, **tokens)
            except TemplateError as error:
                print(f"{name:<32}fails on every conversation: {error}", flush=True)
                continue
            totals += describe(bench, name, walks=options.walks)
    print(f"{'all':<60}" + "".join(f"{totals[c]:>15}" for c in COLUMNS))
    return 1 if any(totals[verdict] for verdict in VERDICTS) else 0


if __name__ == "__main__":
    raise SystemExit(main())
