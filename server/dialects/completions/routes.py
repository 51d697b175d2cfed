"""Completions: the path."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from constrained.compile.compiled_turn import CompiledTurn
from server.dialects.completions.reply import CompletionWriter, fold
from server.dialects.completions.request import CompletionRequest
from server.http.chunks import answer
from server.http.disconnects import wait_for_client
from server.http.serving import ANSWERS, find_service
from server.turns.active_request import Begun
from server.turns.reasoning import Thinking
from server.turns.turn_request import Asked, Service, count_down, launch

LOG = logging.getLogger("constrained.server")
router = APIRouter()
Json = dict[str, Any]


@router.post("/v1/completions", responses=ANSWERS)
@router.post("/completions", responses=ANSWERS, include_in_schema=False)
async def complete(body: CompletionRequest, request: Request) -> Response:
    """Goes on from a text, or from several."""
    service = find_service(request)
    asked = await asyncio.to_thread(body.read, service)
    begun = await wait_for_client(request, begin(service, asked, body.prompts))
    echoes = [_show_prompt(service, prompt) if body.echo else "" for prompt in body.prompts]
    shows_usage = body.shows_usage or not body.stream
    writer = CompletionWriter(begun, echoes, shows_usage=shows_usage)
    return await answer(request, begun, writer, None if body.stream else fold)


async def begin(service: Service, asked: Asked, prompts: Sequence[str | Sequence[int]]) -> Begun:
    """Compiles the prompts and starts a turn for each choice of each.

    Raises:
        Error: as in `Model.call`; then none is under way.
    """
    left = count_down(service.settings.timeout)
    turns = [await _compile(service, asked, prompt, left()) for prompt in prompts]
    streams = launch(service, asked, turns, left())
    return Begun(asked, turns[0], Thinking(), streams, service)


async def _compile(
    service: Service, asked: Asked, prompt: str | Sequence[int], timeout: float | None
) -> CompiledTurn:
    turn = await service.model.acompile_text(prompt, asked.job.answer, timeout)
    LOG.info("raw prompt of %d tokens", len(turn.tokens))
    if service.settings.log_prompts:
        LOG.info("prompt: %r", prompt)
    return turn


def _show_prompt(service: Service, prompt: str | Sequence[int]) -> str:
    if isinstance(prompt, str):
        return prompt
    return service.model.engine.vocabulary.text(prompt).decode("utf-8", "replace")
