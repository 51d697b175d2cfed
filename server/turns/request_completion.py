"""Completes the request that a dialect has read with what the server decides."""

from dataclasses import replace

from server.http.caller import find_salt
from server.settings import Settings
from server.turns.reasoning import Effort, ReasoningRequest, plan_reasoning
from server.turns.repeated_calls import find_repeated_calls
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
    """Returns the reasoning that the request asks for, or else that of the server's settings."""
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
