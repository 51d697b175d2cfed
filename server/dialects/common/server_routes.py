"""The routes that belong to no dialect: health, the OpenAPI document, which models there are, and
llama-server's paths that load and unload them."""

import asyncio
import time

from fastapi import Request
from fastapi.responses import JSONResponse

from constrained.engine.model_facts import ModelFacts
from constrained.errors.own_packages import read_version
from grammars.schema.json_values import JsonObject
from server.dialects.common.reading import read_fields
from server.http.disconnects import wait_for_client
from server.http.openapi import ApiRouter, describe_errors
from server.models.served_models import ModelState, ServedModel, ServedModels
from server.turns.fields.common_fields import Fields

router = ApiRouter()
STARTED = int(time.time())
STARTED_AT = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(STARTED))
NOT_FOUND = describe_errors(401, 404)
NOT_LOADED = describe_errors(400, 401, 404, 413, 415, 503)
EXAMPLE = {"model": "demo"}


class ModelRequest(Fields):
    """A request about a model."""

    model: str
    """Its name, or one of its aliases."""


async def list_all_models(request: Request) -> list[ServedModel]:
    """Returns the models of the server, with the facts in their files."""
    models: ServedModels = request.app.state.models
    await models.read_facts()
    return [*models]


async def find_listed_model(request: Request, name: str) -> ServedModel:
    """Returns the model of this name, with the facts in its file."""
    models: ServedModels = request.app.state.models
    await models.read_facts()
    return models.get(name)


@router.get("/v1/models", responses=describe_errors(401))
async def list_models(request: Request) -> JsonObject:
    """Lists the models, loaded or not."""
    described = [describe_model(model) for model in await list_all_models(request)]
    return {
        "object": "list",
        "data": described,
        "has_more": False,  # the fields from here on are Anthropic's
        "first_id": described[0]["id"],
        "last_id": described[-1]["id"],
    }


@router.get("/v1/models/{id:path}", responses=NOT_FOUND)
async def show_model(id: str, request: Request) -> JsonObject:
    """Shows the model of this name."""
    return describe_model(await find_listed_model(request, id))


def describe_model(served: ServedModel) -> JsonObject:
    meta: JsonObject = {"size": served.file_bytes, **_describe_file(served.facts)}
    if served.model is not None:
        meta["n_ctx"] = served.context_length  # of a request and its reply together
        meta["n_vocab"] = len(served.model.engine.vocabulary.tokens)
        meta["memory"] = served.memory_bytes
        meta["tool_format"] = served.model.compiler.format.name
    status: JsonObject = {"value": served.state}
    if served.state is ModelState.FAILED:
        status |= {"failed": True, "message": str(served.failure)}
    return {
        "id": served.name,
        "object": "model",
        "type": "model",
        "display_name": served.name,
        "created": STARTED,
        "created_at": STARTED_AT,
        "owned_by": "constrained",
        "lifecycle": "active",
        "max_input_tokens": served.context_length,
        "aliases": [*served.source.aliases],
        "status": status,
        "meta": meta,
    }


def _describe_file(facts: ModelFacts) -> JsonObject:
    stated: JsonObject = {
        "general_name": facts.name,
        "architecture": facts.architecture,
        "quantization": facts.quantisation,
        "n_params": facts.parameters,
        "n_ctx_train": facts.context_length,
        "n_embd": facts.embedding_length,
    }
    return {name: value for name, value in stated.items() if value}


@router.post_json("/models/load", ModelRequest, EXAMPLE, responses=NOT_LOADED)
async def load(request: Request) -> JsonObject:
    """Loads a model, unless it is loaded. Others may be unloaded for it."""
    model = await _find_model(request)
    models: ServedModels = request.app.state.models
    models.release(await wait_for_client(request, models.acquire(model.name)))
    return {"success": True}


@router.post_json("/models/unload", ModelRequest, EXAMPLE, responses=NOT_LOADED)
async def unload(request: Request) -> JsonObject:
    """Unloads a model when no request uses it any more. The next request for it loads it again."""
    model = await _find_model(request)
    await wait_for_client(request, request.app.state.models.unload(model))
    return {"success": True}


async def _find_model(request: Request) -> ServedModel:
    body = await read_fields(request, ModelRequest)
    return request.app.state.models.get(body.model)


def describe_server() -> JsonObject:
    return {
        "name": "constrained",
        "version": read_version(),
        "playground": "/playground",
        "openapi": "/openapi.json",
        "health": "/health",
    }


@router.get("/openapi.json", include_in_schema=False)
async def show_openapi(request: Request) -> JSONResponse:
    """Describes all paths, as an OpenAPI document. It is made once, in a thread: that takes
    0.3 s."""
    return JSONResponse(await asyncio.to_thread(request.app.openapi))


@router.get("/health", responses=describe_errors(503))
@router.get("/v1/health", include_in_schema=False)
async def show_health(request: Request) -> JsonObject:
    """Returns that the server can answer requests."""
    request.app.state.models.check_health()
    return {"status": "ok"}
