"""Compiles a request to prompt and grammar; writes the headers and notes of its reply."""

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from constrained.model.compile.compiled_turn import CompiledTurn
from constrained.model.confidence_policy import Unsure
from constrained.model.reply import Reply
from constrained.model.trace.turn_trace import write_confidence
from constrained.prompt.format_selection.generic import HARDLY_CALLS
from constrained.prompt.tools.offer import Refusal
from grammars.turn import ToolCall
from server.errors import cut_middle
from server.http.caller import find_owner
from server.turns.offered_tools import SkippedTool
from server.turns.request_record import Durations, RequestRecord
from server.turns.service import Service
from server.turns.turn_request import TurnRequest

LOG = logging.getLogger("constrained.server")
SHORT = 16  # characters of a hash
MAX_HEADER = 500  # characters
MAX_NAME_LENGTH = 1_000  # characters of a client's name for something, in notes and in the log


@dataclass(frozen=True)
class CompiledRequest:
    """A request whose prompt and grammar are ready, as `complete_request` returns it."""

    service: Service
    request: TurnRequest
    turn: CompiledTurn

    @cached_property
    def ignored_fields(self) -> list[str]:
        """The names of the fields that were ignored; long names are shortened."""
        return [cut_middle(name, MAX_NAME_LENGTH) for name in self.request.ignored_fields]

    @cached_property
    def grammar_hash(self) -> str | None:
        return None if self.turn.grammar is None else _hash_text(self.turn.grammar)

    @cached_property
    def head_hash(self) -> str | None:
        """A hash of the prefix that all prompts with these tools and system messages share; None:
        they share none."""
        shared = self.turn.prompt.breakpoints.shared
        return _hash_text(repr(self.turn.tokens[:shared])) if shared else None

    @property
    def headers(self) -> dict[str, str]:
        """Response headers: the tool format, hashes of prompt and grammar, and which fields of the
        request are not fulfilled."""
        turn = self.turn
        headers = {"X-Tool-Format": turn.format.name, "X-Turn-Start": turn.state.start.value}
        if self.head_hash is not None:
            headers["X-Head-Hash"] = self.head_hash
        if self.grammar_hash is not None:
            headers["X-Grammar-Hash"] = self.grammar_hash
        if turn.refused:
            headers["X-Grammar-Constraints"] = "downgraded"
        if self.request.tools.skipped:
            types = dict.fromkeys(_name_type(tool) for tool in self.request.tools.skipped)
            headers["X-Skipped-Tools"] = _as_header(", ".join(types))
        if self.ignored_fields:
            headers["X-Ignored-Fields"] = _as_header(", ".join(self.ignored_fields))
        if turn.prompt.forms:
            names = [form.name.lower() for form in turn.prompt.forms]
            headers["X-Message-Forms"] = ", ".join(names)
        if self.request.dropped:
            headers["X-Dropped-Messages"] = str(self.request.dropped)
        if self.request.normalised:
            headers["X-Normalised"] = str(self.request.normalised)
        if self.request.plan.ignored:
            headers["X-Reasoning-Effort"] = "ignored"
        return headers

    @property
    def notes(self) -> dict[str, Any]:
        """The field `constrained` of a reply, which no dialect has: tools that were refused, fields
        that were ignored, and the grammar with `--show-grammar`. Empty if there are no notes."""
        notes: dict[str, Any] = {}
        if self.turn.refused:
            notes["refused_tools"] = [self._show_refusal(tool) for tool in self.turn.refused]
        if self.request.tools.skipped:
            skipped: list[dict[str, Any]] = []
            for tool in self.request.tools.skipped:
                skipped.append({"type": _name_type(tool), "where": tool.where})
            notes["skipped_tools"] = skipped
        if self.ignored_fields:
            notes["ignored_fields"] = self.ignored_fields
        if self.turn.prompt.forms:
            notes["message_forms"] = [form.value for form in self.turn.prompt.forms]
        if self.request.dropped:
            notes["dropped_messages"] = self.request.dropped
        if self.request.repeated_calls:
            repeated = [{"name": name, "count": n} for name, n in self.request.repeated_calls]
            notes["repeated_calls"] = repeated
        if self.request.plan.ignored:
            notes["reasoning"] = self.request.plan.to_json()
        if self.service.settings.show_grammar:
            notes["format"] = self.turn.format.name
            notes["start"] = self.turn.state.start.value
            notes["reasoning"] = self.request.plan.to_json()
            notes["weakened"] = _describe_weakened(self.turn)
            notes["grammar"] = self.turn.grammar
        return {"constrained": notes} if notes else {}

    def annotate_end(self, reply: Reply) -> dict[str, Any]:
        """Returns all notes, if the end of the reply adds any; {} otherwise, since the other notes
        are sent at its start."""
        notes = self.annotate({0: reply})
        return notes if notes != self.notes else {}

    def annotate(self, replies: Mapping[int, Reply]) -> dict[str, Any]:
        """Returns all notes, including those that only complete replies have: values that repeated
        themselves and were ended, other forms in which calls came, positions where another replica
        took over, the remote engine, the confidence, and why there may be no call."""
        options = self.request.generation
        further: dict[str, Any] = {}
        ended: list[dict[str, Any]] = []
        envelopes: list[dict[str, Any]] = []
        resumed: list[dict[str, Any]] = []
        for number, reply in sorted(replies.items()):
            choice = {"choice": number} if len(replies) > 1 else {}
            ended += [choice | value.to_json() for value in reply.ended_values]
            envelopes += [choice | {"kind": kind.value} for kind in reply.envelopes]
            resumed += [choice | {"tokens": count} for count in reply.resumed]
            if reply.remote is not None:
                further["remote"] = reply.remote.to_json()
            if options.trace or options.confidence_policy.min_confidence is not None:
                further |= self._show_confidence(reply)
        if ended:
            further["ended_values"] = ended
        if envelopes:
            further["envelopes"] = envelopes
        if resumed:
            further["resumed"] = resumed
        has_calls = any(reply.has_begun_calls for reply in replies.values())
        if self.turn.plan.hardly_calls and not has_calls:
            further["no_call"] = HARDLY_CALLS
        if not further:
            return self.notes
        return {"constrained": {**self.notes.get("constrained", {}), **further}}

    def record(
        self, reply: Reply, *, compile_seconds: float, elapsed_seconds: float
    ) -> RequestRecord:
        """Returns the record of a reply, without the id of the request; the reply is empty if the
        turn was cancelled or has failed. `elapsed_seconds` are from the end of compiling to the end
        of the reply."""
        usage, timings = reply.usage, reply.timings
        decoding = timings.prompt_seconds + timings.generation_seconds
        return RequestRecord(
            model=self.service.name,
            format=self.turn.format.name,
            finish=reply.finish_reason,
            usage=usage,
            durations=Durations(
                compile=compile_seconds,
                queue=max(0.0, elapsed_seconds - decoding),
                prefill=timings.prompt_seconds,
                generation=timings.generation_seconds,
            ),
            tools=len(self.turn.tools),
            calls=tuple((call.name, _judge_call(call)) for call in reply.calls),
            envelopes=tuple(kind.value for kind in reply.envelopes),
            prompt_hash=self.head_hash or "",
            grammar_hash=self.grammar_hash or "",
            repeated_calls=len(self.request.repeated_calls),
        )

    def _show_confidence(self, reply: Reply) -> dict[str, Any]:
        shown: dict[str, Any] = {}
        if reply.call_probability is not None:
            shown["call_probability"] = reply.call_probability
        if reply.calls:
            shown["confidence"] = [self._show_call(call) for call in reply.calls]
        if reply.unsure_calls:
            shown["unsure_calls"] = [self._show_call(call) for call in reply.unsure_calls]
        return shown

    def _show_call(self, call: ToolCall) -> dict[str, Any]:
        form = self.request.tools.find_form(call.name)
        shown: dict[str, Any] = {"name": form.name, "arguments": call.arguments}
        if call.confidence is not None:
            shown["confidence"] = write_confidence(call.confidence)
        return shown

    def _show_refusal(self, refusal: Refusal) -> dict[str, Any]:
        shown: dict[str, Any] = refusal.to_json()
        shown["name"] = self.request.tools.find_form(refusal.name).name
        shown["pointer"] = self.request.tools.locate(shown["pointer"])
        return shown


async def compile_request(
    service: Service, request: TurnRequest, timeout: float | None = None
) -> CompiledRequest:
    """Writes the prompt of a request that `complete_request` has returned, and builds its grammar.
    An error of a tool has its place in the request."""
    if request.tools.skipped:
        types = ", ".join(map(_name_type, request.tools.skipped))
        LOG.info("tools that this server cannot run are not offered: %s", types)
    with request.tools.locating_errors():
        turn = await service.model.acompile(request.job, timeout, client=find_owner())
    return CompiledRequest(service, request, turn)


async def compile_instead(compiled: CompiledRequest, timeout: float | None) -> CompiledTurn | None:
    """Compiles the turn that replaces one with a call that the model is unsure of; None: the
    request wants no such replacement."""
    request, service = compiled.request, compiled.service
    if request.generation.confidence_policy.unsure is Unsure.APPROVE:
        return None
    job = request.generation.confidence_policy.change_job(request.job)
    with request.tools.locating_errors():
        return await service.model.acompile(job, timeout, client=find_owner())


def _judge_call(call: ToolCall) -> str:
    if call.truncated:
        return "truncated"
    return "valid" if call.valid else "unfit"


def _name_type(tool: SkippedTool) -> str:
    return cut_middle(tool.type, MAX_NAME_LENGTH)


def _hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:SHORT]


def _as_header(text: str) -> str:
    """Converts the text to a header value: printable ASCII, no space at its ends, limited
    length."""
    return json.dumps(text)[1:-1].replace("\x7f", "\\u007f")[:MAX_HEADER].strip()


def _describe_weakened(turn: CompiledTurn) -> dict[str, Any]:
    """Returns the keywords that the mask does not enforce exactly, for each tool."""
    weakened: dict[str, Any] = {}
    for tool in turn.tools:
        report = tool.schema.report
        described: dict[str, Any] = {}
        for name in ("checked", "repaired", "ignored"):
            findings = getattr(report, name)
            if findings:
                described[name] = [vars(finding) for finding in findings]
        if not tool.strict:
            described["strict"] = False
        if described:
            weakened[tool.name] = described
    return weakened
