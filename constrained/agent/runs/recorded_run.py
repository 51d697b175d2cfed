"""Recorded runs: begin, continue, approve calls, fork."""

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from constrained.agent.finished_run import Reason
from constrained.agent.journal import LATER, Approval, CallPlace
from constrained.agent.run_tools import RunTools
from constrained.agent.runs.record_form import (
    read_call,
    read_options,
    write_messages,
    write_options,
)
from constrained.agent.runs.recorded_tools import assign_tools, check_rank, write_run_tools
from constrained.agent.runs.recorder import Recorder
from constrained.agent.runs.store import EventKind, RecordedRun, RunStore
from constrained.engine.sampling import SEEDS, Sampling, SamplingOptions, read_sampling
from constrained.errors import RequestError
from grammars.turn import ToolCall


@dataclass(frozen=True)
class ModelIdentity:
    """What the record of a run has about its model.

    Args:
        name: of the chat template.
        template: the source of the chat template.
        tokens: the texts of `bos_token` and `eos_token`.
        format: the name of the wire format.
        sampling: the default sampling of requests.
    """

    name: str
    template: str
    tokens: Mapping[str, str]
    format: str
    sampling: Sampling


@dataclass(frozen=True)
class RecordedRequest:
    """A run in progress, with its request.

    Args:
        journal: of the run.
        messages, tools, options: as for `constrained.agent.run.run`.
    """

    journal: Recorder
    messages: Any
    tools: RunTools
    options: dict[str, Any]


@contextmanager
def begin(
    path: str | os.PathLike[str],
    messages: Sequence[Mapping[str, Any]] | str,
    tools: RunTools,
    options: Mapping[str, Any],
    *,
    model: ModelIdentity,
) -> Iterator[RecordedRequest]:
    """Begins a run in a file of records.

    The seed is chosen here, so that a turn that was interrupted by the end of the process is
    generated again in the same way.

    Raises:
        RequestError: the file cannot be used, or an option cannot be recorded.
    """
    with RunStore(path) as store:
        given = dict(options)
        given["sampling"] = choose_seed(read_sampling(options, model.sampling))
        for name in SamplingOptions.__annotations__:
            given.pop(name, None)
        request = {
            "messages": write_messages(messages),
            **write_run_tools(tools, given),
            "options": write_options(given),
            "has_approve": given.get("approve") is not None,
            "model": model.name,
            "template": model.template,
            "tokens": dict(model.tokens),
            "format": model.format,
        }
        run = store.find(store.create(request))
        yield RecordedRequest(Recorder(run, (), store), messages, tools, given)


def choose_seed(sampling: Sampling) -> Sampling:
    """Returns the sampling with a seed."""
    if sampling.seed is not None:
        return sampling
    return replace(sampling, seed=secrets.randbelow(SEEDS))


@contextmanager
def go_on(
    path: str | os.PathLike[str],
    id: str,
    tools: RunTools,
    options: Mapping[str, Any],
) -> Iterator[RecordedRequest]:
    """Continues a run.

    Args:
        path: of the file.
        id: of the run, or its beginning.
        tools: the same as before; functions are not recorded.
        options: the options that are given again or changed. If the run had `approve` and none is
            given, undecided calls wait.

    Raises:
        RequestError: there is no such run, or one of its tools is missing.
    """
    with RunStore(path, create=False) as store:
        run = store.find(id)
        events = store.read_events(run.id)
        given = dict(options)
        search = given.pop("search_tools", None)
        check_rank(run, search)
        assigned = assign_tools(run, events, tools, search)
        whole = read_options(run.request["options"]) | given | assigned.options
        if run.request["has_approve"] and whole.get("approve") is None:
            whole["approve"] = decide_later
        journal = Recorder(run, events, store)
        yield RecordedRequest(journal, run.request["messages"], assigned.shown, whole)


def decide_later(call: ToolCall) -> Approval:
    """Postpones the decision about every call."""
    return LATER


@dataclass(frozen=True)
class WaitingCall:
    """A call that waits for approval, and its place in the run."""

    place: CallPlace

    @property
    def call(self) -> ToolCall:
        """The call that would be executed."""
        return self.place.call


def list_waiting(store: RunStore, run: RecordedRun) -> list[WaitingCall]:
    """Returns the calls of a run that wait for approval, in order."""
    waiting: dict[tuple[int, int | None], WaitingCall] = {}
    if run.state != Reason.WAITING:
        return []
    for event in store.read_events(run.id):
        place = (event.turn, event.call)
        if event.kind is EventKind.WAITING and event.call is not None:
            call = read_call(event.body)
            waiting[place] = WaitingCall(CallPlace(event.turn, event.call, call))
        elif event.kind is EventKind.VERDICT:
            waiting.pop(place, None)
    return list(waiting.values())


def decide(
    store: RunStore, run: RecordedRun, verdict: bool | str, *, number: int | None = None
) -> list[ToolCall]:
    """Decides about waiting calls, and returns these calls. The run continues when it is resumed.

    Args:
        verdict: True: approved; otherwise the reason that the model reads.
        number: of the call in its turn, from 0; None: all waiting calls.

    Raises:
        RequestError: no such call is waiting.
    """
    chosen: list[WaitingCall] = []
    for waiting in list_waiting(store, run):
        if number is None or waiting.place.number == number:
            chosen.append(waiting)
    if not chosen:
        raise RequestError(
            f"the run {run.id} has no such call that waits for approval", where="/call"
        )
    recorder = Recorder(run, store.read_events(run.id), store)
    for waiting in chosen:
        recorder.note_verdict(waiting.place, verdict)
    return [waiting.call for waiting in chosen]


def fork(store: RunStore, run: RecordedRun, turns: int) -> str:
    """Creates a run that begins with the first turns of another one, and continues with another
    seed; returns its id."""
    options = read_options(run.request["options"])
    sampling = choose_seed(replace(options["sampling"], seed=None))
    request = {**run.request, "options": write_options({**options, "sampling": sampling})}
    return store.fork(run.id, turns, request)
