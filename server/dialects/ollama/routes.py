"""Ollama's API: the paths."""

import hashlib
from collections.abc import AsyncIterator

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from constrained.engine.model_facts import ModelFacts
from constrained.model.loaded_model import LoadedModel
from grammars.schema.json_values import JsonObject
from server.dialects.common.model_routes import STARTED_AT
from server.dialects.common.reading import read_fields, read_request
from server.dialects.common.replies import answer
from server.dialects.common.serving import find_embeddings, find_named_service
from server.dialects.completions.request import TextRequest
from server.dialects.completions.routes import start_text
from server.dialects.ollama.reply import OllamaWriter, encode_line, make_head
from server.dialects.ollama.request import OllamaChatRequest, OllamaGenerateRequest, OllamaRequest
from server.errors import HttpError
from server.http.disconnects import wait_for_client
from server.http.openapi import ERRORS, describe_body, describe_errors, describe_stream
from server.models.embedding_service import EmbeddingService
from server.models.served_models import ServedModel, ServedModels
from server.turns.active_request import start_request
from server.turns.fields.common_fields import Fields
from server.turns.service import Service
from server.turns.turn_request import TurnRequest

router = APIRouter(prefix="/api")
STREAMED = describe_stream(OllamaWriter.media_type) | ERRORS
NO_KEY = describe_errors(401)
OPTIONS = {"num_predict": 30}
GREETING = {
    "model": "demo",
    "messages": [{"role": "user", "content": "Hello!"}],
    "options": OPTIONS,
    "stream": False,
}
PROMPT = {"model": "demo", "prompt": "Hello!", "options": OPTIONS, "stream": False}
VERSION = "0.13.0"
"""The version of Ollama whose API this is, since clients require a minimum version."""
FOREVER = "2318-01-01T00:00:00Z"
"""The reported end of loading: a model stays loaded until its memory is needed. Ollama also reports
a distant date in this case."""

ALWAYS: list[str] = ["completion", "tools"]
"""What every model can do that generates text."""
EMBEDDING = ["embedding"]
UNKNOWN = "unknown"
"""The architecture of a model without a file. Clients look for the context length under its
name."""


class ShowRequest(Fields):
    """A request to /api/show."""

    model: str | None = None
    """The name of a model, or one of its aliases; required if the server has several."""


@router.post(
    "/chat",
    responses=STREAMED,
    openapi_extra=describe_body(OllamaChatRequest, GREETING),
)
async def chat(request: Request) -> Response:
    """Answers a conversation with text, with calls of tools, or with both."""
    empty = {"message": {"role": "assistant", "content": ""}}
    return await _answer(request, OllamaChatRequest, empty)


@router.post(
    "/generate",
    responses=STREAMED,
    openapi_extra=describe_body(OllamaGenerateRequest, PROMPT),
)
async def generate(request: Request) -> Response:
    """Answers a prompt, or continues a raw one."""
    return await _answer(request, OllamaGenerateRequest, {"response": ""})


async def _answer(request: Request, kind: type[OllamaRequest], empty: JsonObject) -> Response:
    """Answers a request of this type; an empty request gets the empty reply."""
    service, body, read = await read_request(request, kind, _read_unless_it_loads)
    if read is None:
        if body.unloads:
            models: ServedModels = request.app.state.models
            models.unload_soon(service.name)
        return _confirm_loaded(service, body, empty)
    if isinstance(read, TextRequest):
        starting = start_text(service, read)
    else:
        starting = start_request(service, read)
    active = await wait_for_client(request, starting)
    writer = OllamaWriter(active.compiled, is_chat=isinstance(body, OllamaChatRequest))
    return await answer(request, active, writer, is_streamed=body.is_streamed)


def _read_unless_it_loads(
    body: OllamaRequest, service: Service
) -> TurnRequest | TextRequest | None:
    return None if body.only_loads else body.read(service)


def _confirm_loaded(service: Service, body: OllamaRequest, empty: JsonObject) -> Response:
    line = {**make_head(service.name), **empty, "done": True, "done_reason": "load"}
    if body.unloads:
        line["done_reason"] = "unload"
    if not body.is_streamed:
        return JSONResponse(line)

    async def stream() -> AsyncIterator[bytes]:
        yield encode_line(line)

    return StreamingResponse(stream(), media_type=OllamaWriter.media_type)


@router.get("/version", responses=NO_KEY)
async def show_version() -> JsonObject:
    """Returns the version of Ollama whose API this is."""
    return {"version": VERSION}


@router.get("/tags", responses=NO_KEY)
async def list_models(request: Request) -> JsonObject:
    """Lists the models, loaded or not."""
    await request.app.state.models.read_facts()
    tags = [_describe(model) for model in request.app.state.models]
    embeddings = find_embeddings(request)
    if embeddings is not None:
        tags.append(_describe_embedding_model(embeddings))
    return {"models": tags}


@router.get("/ps", responses=NO_KEY)
async def list_loaded(request: Request) -> JsonObject:
    """Lists the loaded models."""
    await request.app.state.models.read_facts()
    described: list[JsonObject] = []
    for model in request.app.state.models:
        if model.service is not None:
            length = model.service.model.engine.context_length
            tag = _describe(model)
            tag["size"] = model.memory_bytes
            described.append(
                {**tag, "expires_at": FOREVER, "context_length": length, "size_vram": 0}
            )
    embeddings = find_embeddings(request)
    if embeddings is not None and embeddings.model is not None:
        tag = _describe_embedding_model(embeddings)
        length = embeddings.model.context_length
        described.append({**tag, "expires_at": FOREVER, "context_length": length, "size_vram": 0})
    return {"models": described}


@router.post("/show", responses=ERRORS, openapi_extra=describe_body(ShowRequest, {"model": "demo"}))
async def show(request: Request) -> JsonObject:
    """Describes the model and its capabilities."""
    body = await read_fields(request, ShowRequest)
    name = request.query_params.get("model") or body.model
    embeddings = find_embeddings(request)
    if embeddings is not None and embeddings.answers_to(name):
        return _show_embedding_model(embeddings)
    service = await find_named_service(request, name)
    models: ServedModels = request.app.state.models
    await models.read_facts()
    facts = models.get(service.name).facts
    engine, compiler = service.model.engine, service.model.compiler
    sampling = service.model.sampling
    names = ("temperature", "top_k", "top_p", "min_p")
    return {
        "modelfile": "",
        "parameters": "\n".join(f"{name} {getattr(sampling, name):g}" for name in names),
        "template": compiler.template.source,
        "details": _describe_details(facts, engine.context_length),
        "model_info": _describe_file(service.name, facts, engine.context_length)
        | {f"{facts.architecture or UNKNOWN}.vocab_size": len(engine.vocabulary.tokens)},
        "capabilities": _list_capabilities(service.model),
        "modified_at": STARTED_AT,
    }


def _show_embedding_model(service: EmbeddingService) -> JsonObject:
    facts = service.facts
    return {
        "modelfile": "",
        "parameters": "",
        "template": "",
        "details": _describe_details(facts, facts.context_length),
        "model_info": _describe_file(service.name, facts, facts.context_length),
        "capabilities": EMBEDDING,
        "modified_at": STARTED_AT,
    }


def _list_capabilities(model: LoadedModel) -> list[str]:
    capabilities = [*ALWAYS]
    if model.compiler.format.reasoning is not None:
        capabilities.append("thinking")
    return capabilities


def _describe_file(name: str, facts: ModelFacts, context_length: int) -> JsonObject:
    """Describes a model by the keys of GGUF.

    Args:
        name: that the model is served under.
        facts: of its file.
        context_length: in tokens, as served.
    """
    architecture = facts.architecture or UNKNOWN
    title = facts.name or name  # VS Code lists a model by its basename, so there is always one
    return {
        "general.architecture": architecture,
        "general.basename": title,
        "general.name": title,
        "general.parameter_count": facts.parameters,
        f"{architecture}.context_length": context_length,
        f"{architecture}.embedding_length": facts.embedding_length,
    }


def _describe(model: ServedModel) -> JsonObject:
    tag = _make_tag(model.name, model.file_bytes, model.facts)
    if model.service is not None:
        loaded = model.service.model
        tag["capabilities"] = _list_capabilities(loaded)
        tag["details"]["context_length"] = loaded.engine.context_length
    return tag


def _describe_embedding_model(service: EmbeddingService) -> JsonObject:
    return {
        **_make_tag(service.name, service.facts.bytes, service.facts),
        "capabilities": EMBEDDING,
    }


def _make_tag(name: str, size: int, facts: ModelFacts) -> JsonObject:
    return {
        "name": name,
        "model": name,
        "modified_at": STARTED_AT,
        "size": size,
        "digest": hashlib.sha256(name.encode()).hexdigest(),
        "capabilities": [*ALWAYS],
        "details": _describe_details(facts, facts.context_length),
    }


def _describe_details(facts: ModelFacts, context_length: int) -> JsonObject:
    details: JsonObject = {
        "format": "gguf",
        "family": facts.architecture,
        "families": [facts.architecture] if facts.architecture else None,
        "parent_model": "",
        "parameter_size": write_count(facts.parameters) if facts.parameters else "",
        "quantization_level": facts.quantisation,
    }
    if context_length:
        details["context_length"] = context_length
    return details


def write_count(count: int) -> str:
    """Writes a number in Ollama's form of parameter counts: `751.63M`, `7.6B`."""
    for least, unit, digits in ((10**9, "B", 1), (10**6, "M", 2), (10**3, "K", 0)):
        if count >= least:
            number = f"{count / least:.{digits}f}"
            return number.removesuffix("." + "0" * digits) + unit
    return str(count)


@router.api_route("/pull", methods=["POST"], include_in_schema=False)
@router.api_route("/push", methods=["POST"], include_in_schema=False)
@router.api_route("/create", methods=["POST"], include_in_schema=False)
@router.api_route("/copy", methods=["POST"], include_in_schema=False)
@router.api_route("/delete", methods=["DELETE"], include_in_schema=False)
async def change_models() -> None:
    """Does nothing: the models are those that the server was started with."""
    message = "this server only has the model that it was started with: choose another with -m"
    raise HttpError(501, message, "not_implemented")
