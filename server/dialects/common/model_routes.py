"""The paths for models: which there are, and llama-server's paths that load and unload them."""

import time
from dataclasses import dataclass

from fastapi import Request

from constrained.engine.gguf.contents import ModelPurpose
from constrained.engine.model_facts import ModelFacts
from constrained.model.loaded_model import LoadedModel
from grammars.schema.json_values import JsonObject
from server.dialects.common.reading import read_fields
from server.dialects.common.serving import find_embeddings
from server.http.disconnects import wait_for_client
from server.http.openapi import ApiRouter, describe_errors
from server.models.embedding_service import EmbeddingService
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


@dataclass(frozen=True)
class ModelEntry:
    """A model as lists describe it, loaded or not.

    Args:
        name: its name for clients.
        facts: what its file says.
        size: bytes of its files; 0: not known before it is loaded.
        memory: bytes that it takes.
        state: whether it is loaded.
        model: the loaded model, if it generates text.
        context_length: in tokens, as it is loaded; None: it is not.
        is_embedding: it makes vectors, not text.
        aliases: further names.
        failure: why it could not be loaded.
    """

    name: str
    facts: ModelFacts
    size: int
    memory: int
    state: ModelState
    model: LoadedModel | None = None
    context_length: int | None = None
    is_embedding: bool = False
    aliases: tuple[str, ...] = ()
    failure: Exception | None = None


async def list_all_models(request: Request) -> list[ModelEntry]:
    """Returns the models of the server, the one for embeddings last."""
    await request.app.state.models.read_facts()
    listed = [_list_served(model) for model in request.app.state.models]
    embeddings = find_embeddings(request)
    if embeddings is not None:
        listed.append(_list_embedding(embeddings))
    return listed


async def find_listed_model(request: Request, name: str | None) -> ModelEntry:
    """Returns the model of this name; None: the request names none.

    Raises:
        HttpError: there is no such model.
    """
    models: ServedModels = request.app.state.models
    await models.read_facts()
    embeddings = find_embeddings(request)
    if embeddings is not None and embeddings.answers_to(name):
        return _list_embedding(embeddings)
    return _list_served(models.get(name) if name else models.find(name))


def _list_served(served: ServedModel) -> ModelEntry:
    model = None if served.service is None else served.service.model
    return ModelEntry(
        served.name,
        served.facts,
        size=served.file_bytes,
        memory=served.memory_bytes,
        state=served.state,
        model=model,
        context_length=None if model is None else model.engine.context_length,
        aliases=served.source.aliases,
        failure=served.failure,
    )


def _list_embedding(service: EmbeddingService) -> ModelEntry:
    model, size = service.model, service.facts.bytes
    return ModelEntry(
        service.name,
        service.facts,
        size=size,
        memory=size,
        state=ModelState.LOADING if model is None else ModelState.LOADED,
        context_length=None if model is None else model.context_length,
        is_embedding=True,
    )


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


def describe_model(listed: ModelEntry) -> JsonObject:
    """Describes a model for the clients of OpenAI, Anthropic and llama-server."""
    meta: JsonObject = {"size": listed.size, **describe_file(listed.facts)}
    if listed.context_length is not None:
        meta["n_ctx"] = listed.context_length  # of a request and its reply together
    if listed.model is not None:
        meta["n_vocab"] = len(listed.model.engine.vocabulary.tokens)
        meta["memory"] = listed.memory
        meta["tool_format"] = listed.model.compiler.format.name
    if listed.is_embedding:
        meta["purpose"] = ModelPurpose.EMBEDDINGS
    status: JsonObject = {"value": listed.state}
    if listed.state is ModelState.FAILED:
        status |= {"failed": True, "message": str(listed.failure)}
    return {
        "id": listed.name,
        "object": "model",
        "type": "model",
        "display_name": listed.name,
        "created": STARTED,
        "created_at": STARTED_AT,
        "owned_by": "constrained",
        "lifecycle": "active",
        "max_input_tokens": listed.context_length,
        "aliases": [*listed.aliases],
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
