"""Completions: the paths."""

import logging

from fastapi import Request
from fastapi.responses import Response

from constrained.model.compile.compiled_turn import CompiledTurn
from server.dialects.common.reading import read_request
from server.dialects.common.replies import answer
from server.dialects.completions.reply import CompletionWriter
from server.dialects.completions.request import CompletionRequest, Prompt, TextRequest
from server.http.caller import find_owner, find_salt
from server.http.disconnects import wait_for_client
from server.http.openapi import STREAMED, ApiRouter
from server.http.time_left import find_time_left
from server.turns.active_request import ActiveRequest, launch
from server.turns.compiled_request import CompiledRequest
from server.turns.service import Service
from server.turns.turn_request import TurnRequest

LOG = logging.getLogger("constrained.server")
router = ApiRouter()
EXAMPLE = {"model": "demo", "prompt": "Once upon a time", "max_tokens": 16}


@router.post_json("/v1/completions", CompletionRequest, EXAMPLE, responses=STREAMED)
async def complete(request: Request) -> Response:
    """Continues one or more texts."""
    service, body, read = await read_request(request, CompletionRequest, CompletionRequest.read)
    active = await wait_for_client(request, start_text(service, read))
    echoes = [""] * len(body.prompts)
    if body.echo:
        echoes = [_show_prompt(service, prompt) for prompt in body.prompts]
    shows_usage = body.shows_usage or not body.stream
    writer = CompletionWriter(active.compiled, echoes, shows_usage=shows_usage)
    return await answer(request, active, writer, is_streamed=body.stream is True)


async def start_text(service: Service, read: TextRequest) -> ActiveRequest:
    """Compiles the prompts and starts a turn for each choice of each.

    Raises:
        Error: as in `Model.call`; then no turn has started.
    """
    request = read.turn_request
    time_left = find_time_left(service.settings.timeout)
    turns = list[CompiledTurn]()
    for prompt in read.prompts:
        turn = await _compile(service, request, prompt, timeout=time_left.measure())
        turns.append(turn)
    launched = launch(service, request.generation, turns, timeout=time_left.measure())
    return ActiveRequest(CompiledRequest(service, request, turns[0]), launched)


async def _compile(
    service: Service, request: TurnRequest, prompt: Prompt, *, timeout: float | None
) -> CompiledTurn:
    job = request.job
    turn = await service.model.acompile_text(
        prompt,
        job.answer,
        timeout,
        client=find_owner(),
        cache_salt=find_salt(job.cache_salt, is_shared=service.settings.share_cache),
        cache_prompt=job.cache_prompt,
        max_repetition=job.max_repetition,
    )
    LOG.info("raw prompt of %d tokens", len(turn.tokens))
    if service.settings.log_prompts:
        LOG.info("prompt: %r", prompt)
    return turn


def _show_prompt(service: Service, prompt: Prompt) -> str:
    """Returns a prompt as text."""
    if isinstance(prompt, str):
        return prompt
    return service.model.engine.vocabulary.text(prompt).decode("utf-8", "replace")
