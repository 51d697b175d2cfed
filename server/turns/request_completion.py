"""Completes the request that a dialect has read with what the server decides."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from grammars.schema.nodes import identify
from grammars.turn import decode_arguments
from server.http.caller import find_salt
from server.settings import Settings
from server.turns.reasoning import Effort, ReasoningRequest, plan_reasoning
from server.turns.request_checks import check_template_kwargs
from server.turns.service import Service
from server.turns.stable_prompts import normalise_messages
from server.turns.turn_request import TurnRequest

REPEATED = 3  # from this number of identical calls on, a conversation is noted as repeating


def complete_request(service: Service, request: TurnRequest) -> TurnRequest:
    """Fills in what the server decides: reasoning, date, ids of calls, limits, cache scope.

    Takes long for long conversations or many tools: do not call it on the event loop.
    """
    compiler = service.model.compiler
    settings = service.settings
    job = request.job
    check_template_kwargs(job.template_kwargs, settings)
    messages, normalised = normalise_messages(job.messages, keep=settings.keep_volatile)
    plan = plan_reasoning(
        _choose_reasoning(request.reasoning, settings),
        has_block=compiler.format.reasoning is not None,
        variables=compiler.template.variables,
        refuses=compiler.refuses,
        write=compiler.template.try_values,
    )
    salt = find_salt(job.cache_salt, is_shared=settings.share_cache)
    job = replace(
        job,
        cache_salt=salt,
        messages=service.call_ids.restore(messages),
        envelopes=settings.envelopes,
        think=plan.think,
        reasoning_budget=plan.budget,
        # Variables that the client itself gives override those of its effort.
        template_kwargs={**settings.template_kwargs, **plan.variables, **job.template_kwargs},
        date=service.dates.find(messages, salt),
    )
    job.grammar_name  # noqa: B018  a hash of all tools: not on the event loop, and kept by the job
    given = request.generation
    generation = replace(
        given,
        max_tokens=settings.max_tokens if given.max_tokens is None else given.max_tokens,
        stop=tuple(dict.fromkeys((*given.stop, *settings.stop))),
    )
    return replace(
        request,
        job=job,
        generation=generation,
        normalised=normalised,
        plan=plan,
        repeated_calls=tuple(find_repeated_calls(job.messages, REPEATED)),
    )


def _choose_reasoning(request: ReasoningRequest, settings: Settings) -> ReasoningRequest:
    if request.is_given:
        if request.budget is None and not request.is_off:
            return replace(request, budget=settings.reasoning_budget)
        return request
    match settings.reasoning:
        case None:
            return ReasoningRequest(budget=settings.reasoning_budget)
        case True:
            return ReasoningRequest(Effort.MEDIUM, settings.reasoning_budget)
        case False:
            return ReasoningRequest(Effort.NONE)


def find_repeated_calls(messages: Sequence[Mapping[str, Any]], least: int) -> list[tuple[str, int]]:
    """Finds calls with the same name and arguments since the last message of the user, `least`
    times or more: names of tools, with their counts."""
    counts: dict[str, int] = {}
    names: dict[str, str] = {}
    for message in messages:
        if message.get("role") == "user":
            counts.clear()
        for call in message.get("tool_calls") or ():
            function = call.get("function") if isinstance(call, Mapping) else None
            if not isinstance(function, Mapping):
                continue
            name = str(function.get("name"))
            key = _identify_call(name, function.get("arguments"))
            counts[key] = counts.get(key, 0) + 1
            names[key] = name
    return [(names[key], count) for key, count in counts.items() if count >= least]


def _identify_call(name: str, arguments: Any) -> str:
    """Names a call by its name and the value of its arguments, however the client writes them. Text
    that is not JSON, or is nested too deeply, is compared as text."""
    try:
        return identify([name, decode_arguments(arguments)])
    except RecursionError:
        # Values that are nested this deeply are not compared.
        return identify([name, arguments if isinstance(arguments, str) else id(arguments)])
