"""The paths for models: which there are, and llama-server's paths that load and unload them."""

import time
from collections.abc import Sequence

from fastapi import APIRouter, Request

from constrained.engine.model_facts import ModelFacts
from grammars.schema.json_values import JsonObject
from server.dialects.common.reading import read_fields
from server.dialects.common.serving import find_embeddings
from server.http.disconnects import wait_for_client
from server.http.openapi import describe_body, describe_errors
from server.models.embedding_service import EmbeddingService
from server.models.served_models import ModelState, ServedModel, ServedModels
from server.turns.fields.common_fields import Fields

router = APIRouter()
STARTED = int(time.time())
STARTED_AT = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(STARTED))
NOT_FOUND = describe_errors(401, 404)
NOT_LOADED = describe_errors(400, 401, 404, 413, 415, 503)


class ModelRequest(Fields):
    """A request about a model."""

    model: str
    """Its name, or one of its aliases."""


@router.get("/v1/models", responses=describe_errors(401))
@router.get("/models", include_in_schema=False)
async def list_models(request: Request) -> JsonObject:
    """Lists the models, loaded or not."""
    await request.app.state.models.read_facts()
    described = [describe_model(model) for model in request.app.state.models]
    embeddings = find_embeddings(request)
    if embeddings is not None:
        described.append(describe_embedding_model(embeddings))
    return {
        "object": "list",
        "data": described,
        "has_more": False,  # the fields from here on are Anthropic's
        "first_id": described[0]["id"],
        "last_id": described[-1]["id"],
    }


@router.get("/v1/models/{id:path}", responses=NOT_FOUND)
@router.get("/models/{id:path}", include_in_schema=False)
async def show_model(id: str, request: Request) -> JsonObject:
    """Shows the model of this name."""
    await request.app.state.models.read_facts()
    embeddings = find_embeddings(request)
    if embeddings is not None and embeddings.answers_to(id):
        return describe_embedding_model(embeddings)
    return describe_model(request.app.state.models.get(id))


def describe_model(model: ServedModel) -> JsonObject:
    """Describes a model for the clients of OpenAI, Anthropic and llama-server."""
    # The size is 0 if it is not known before the model is loaded.
    meta: JsonObject = {"size": model.file_bytes, **describe_file(model.facts)}
    if model.service is not None:
        loaded = model.service.model
        meta["n_vocab"] = len(loaded.engine.vocabulary.tokens)
        meta["n_ctx"] = loaded.engine.context_length  # of a request and its reply together
        meta["memory"] = loaded.engine.memory_bytes
        meta["tool_format"] = loaded.compiler.format.name
    status: JsonObject = {"value": model.state}
    if model.state is ModelState.FAILED:
        status = {"value": model.state, "failed": True, "message": str(model.failure)}
    return _make_entry(model.name, model.source.aliases, status=status, meta=meta)


def describe_embedding_model(service: EmbeddingService) -> JsonObject:
    """Describes the embedding model."""
    meta: JsonObject = {"size": service.facts.bytes, **describe_file(service.facts)}
    state = ModelState.LOADING
    if service.model is not None:
        state = ModelState.LOADED
        meta["n_ctx"] = service.model.context_length
    return _make_entry(service.name, (), status={"value": state}, meta=meta)


def _make_entry(
    name: str, aliases: Sequence[str], *, status: JsonObject, meta: JsonObject
) -> JsonObject:
    return {
        "id": name,
        "object": "model",
        "type": "model",
        "display_name": name,
        "created": STARTED,
        "created_at": STARTED_AT,
        "owned_by": "constrained",
        "lifecycle": "active",
        "max_input_tokens": meta.get("n_ctx"),
        "aliases": [*aliases],
        "status": status,
        "meta": meta,
    }


def describe_file(facts: ModelFacts) -> JsonObject:
    """Returns the facts in a model's file, under llama-server's names if it has them."""
    stated: JsonObject = {
        "general_name": facts.name,
        "architecture": facts.architecture,
        "quantization": facts.quantisation,
        "n_params": facts.parameters,
        "n_ctx_train": facts.context_length,
        "n_embd": facts.embedding_length,
    }
    return {name: value for name, value in stated.items() if value}


BODY = describe_body(ModelRequest, {"model": "demo"})


@router.post("/models/load", responses=NOT_LOADED, openapi_extra=BODY)
async def load(request: Request) -> JsonObject:
    """Loads a model, unless it is loaded. Others may be unloaded for it."""
    models, name = await _read(request)
    model = await wait_for_client(request, models.acquire(name))
    models.release(model)
    return {"success": True}


@router.post("/models/unload", responses=NOT_LOADED, openapi_extra=BODY)
async def unload(request: Request) -> JsonObject:
    """Unloads a model when no request uses it any more. The next request for it loads it again."""
    models, name = await _read(request)
    await wait_for_client(request, models.unload(models.get(name)))
    return {"success": True}


async def _read(request: Request) -> tuple[ServedModels, str]:
    body = await read_fields(request, ModelRequest)
    models = request.app.state.models
    models.get(body.model)
    return models, body.model
