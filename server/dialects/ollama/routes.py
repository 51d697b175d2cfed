"""Ollama's API: the paths."""

import hashlib
from collections.abc import AsyncIterator

from fastapi import Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

from grammars.schema.json_values import JsonObject
from server.dialects.common.reading import find_named_service, read_fields, read_request
from server.dialects.common.replies import answer
from server.dialects.common.server_routes import (
    STARTED_AT,
    find_listed_model,
    list_all_models,
)
from server.dialects.ollama.reply import OllamaWriter, encode_line, make_head
from server.dialects.ollama.request import OllamaChatRequest, OllamaGenerateRequest, OllamaRequest
from server.errors import HttpError
from server.http.disconnects import wait_for_client
from server.http.openapi import ERRORS, ApiRouter, describe_errors, describe_stream
from server.models.served_models import ServedModel, ServedModels
from server.turns.active_request import start_request
from server.turns.fields.common_fields import Fields
from server.turns.service import Service
from server.turns.turn_request import TurnRequest

router = ApiRouter(prefix="/api")
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

UNKNOWN = "unknown"
"""The architecture of a model without a file. Clients look for the context length under its
name."""


class ShowRequest(Fields):
    """A request to /api/show."""

    model: str | None = None
    """The name of a model, or one of its aliases; required if the server has several."""


@router.post_json("/chat", OllamaChatRequest, GREETING, responses=STREAMED)
async def chat(request: Request) -> Response:
    """Answers a conversation with text, with calls of tools, or with both."""
    empty = {"message": {"role": "assistant", "content": ""}}
    return await _answer(request, OllamaChatRequest, empty)


@router.post_json("/generate", OllamaGenerateRequest, PROMPT, responses=STREAMED)
async def generate(request: Request) -> Response:
    """Answers a prompt."""
    return await _answer(request, OllamaGenerateRequest, {"response": ""})


async def _answer(request: Request, kind: type[OllamaRequest], empty: JsonObject) -> Response:

    def read_unless_it_loads(body: OllamaRequest, service: Service) -> TurnRequest | None:
        return None if body.only_loads else body.read(service)

    service, body, read = await read_request(request, kind, read_unless_it_loads)
    if read is None:
        if body.unloads:
            models: ServedModels = request.app.state.models
            models.unload_soon(service.name)
        return _confirm_loaded(service, body, empty)
    active = await wait_for_client(request, start_request(service, read))
    writer = OllamaWriter(active.compiled, is_chat=isinstance(body, OllamaChatRequest))
    return await answer(request, active, writer, is_streamed=body.is_streamed)


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
    return {"models": [_make_tag(served) for served in await list_all_models(request)]}


@router.get("/ps", responses=NO_KEY)
async def list_loaded(request: Request) -> JsonObject:
    """Lists the loaded models."""
    described: list[JsonObject] = []
    for served in await list_all_models(request):
        if served.context_length is not None:
            loaded = {"context_length": served.context_length, "size": served.memory_bytes}
            described.append({**_make_tag(served), **loaded, "expires_at": FOREVER, "size_vram": 0})
    return {"models": described}


@router.post_json("/show", ShowRequest, {"model": "demo"})
async def show(request: Request) -> JsonObject:
    """Describes the model and its capabilities."""
    body = await read_fields(request, ShowRequest)
    name = request.query_params.get("model") or body.model
    service = await find_named_service(request, name)  # loads it
    served = await find_listed_model(request, service.name)
    sampling = service.model.sampling
    parameters = ("temperature", "top_k", "top_p", "min_p")
    return {
        "modelfile": "",
        "parameters": "\n".join(f"{key} {getattr(sampling, key):g}" for key in parameters),
        "template": service.model.compiler.template.source,
        "details": _describe_details(served),
        "model_info": _describe_file(served),
        "capabilities": _list_capabilities(served),
        "modified_at": STARTED_AT,
    }


def _list_capabilities(served: ServedModel) -> list[str]:
    if served.model is None or served.model.compiler.format.reasoning is None:
        return ["completion", "tools"]
    return ["completion", "tools", "thinking"]


def _find_length(served: ServedModel) -> int:
    """Returns the context length that is shown: of a loaded model, the one that it is served
    with."""
    if served.context_length is None:
        return served.facts.context_length
    return served.context_length


def _describe_file(served: ServedModel) -> JsonObject:
    facts = served.facts
    architecture = facts.architecture or UNKNOWN
    title = facts.name or served.name  # VS Code lists a model by its basename: there is always one
    described: JsonObject = {
        "general.architecture": architecture,
        "general.basename": title,
        "general.name": title,
        "general.parameter_count": facts.parameters,
        f"{architecture}.context_length": _find_length(served),
        f"{architecture}.embedding_length": facts.embedding_length,
    }
    if served.model is not None:
        described[f"{architecture}.vocab_size"] = len(served.model.engine.vocabulary.tokens)
    return described


def _make_tag(served: ServedModel) -> JsonObject:
    return {
        "name": served.name,
        "model": served.name,
        "modified_at": STARTED_AT,
        "size": served.file_bytes,
        "digest": hashlib.sha256(served.name.encode()).hexdigest(),
        "capabilities": _list_capabilities(served),
        "details": _describe_details(served),
    }


def _describe_details(served: ServedModel) -> JsonObject:
    facts = served.facts
    details: JsonObject = {
        "format": "gguf",
        "family": facts.architecture,
        "families": [facts.architecture] if facts.architecture else None,
        "parent_model": "",
        "parameter_size": write_count(facts.parameters) if facts.parameters else "",
        "quantization_level": facts.quantisation,
    }
    if length := _find_length(served):
        details["context_length"] = length
    return details


def write_count(count: int) -> str:
    """Writes a number in Ollama's form of parameter counts: `751.63M`, `7.6B`."""
    for least, unit, digits in ((10**9, "B", 1), (10**6, "M", 2), (10**3, "K", 0)):
        if count >= least:
            number = f"{count / least:.{digits}f}"
            return number.removesuffix("." + "0" * digits) + unit
    return str(count)


@router.post("/pull", include_in_schema=False)
@router.post("/push", include_in_schema=False)
@router.post("/create", include_in_schema=False)
@router.post("/copy", include_in_schema=False)
@router.delete("/delete", include_in_schema=False)
async def change_models() -> None:
    """Does nothing: the models are those that the server was started with."""
    message = "this server only has the model that it was started with: choose another with -m"
    raise HttpError(501, message, "not_implemented")
