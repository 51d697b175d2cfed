"""llama-server's own paths: tokens, chat template, properties, slots."""

from functools import partial

from fastapi import Request
from fastapi.responses import Response
from pydantic import Field

from constrained.engine.sampling import Sampling
from grammars.schema.json_values import JsonObject
from server.dialects.chat.request import ChatRequest
from server.dialects.common.model_routes import describe_file
from server.dialects.common.reading import read_request, run_off_loop
from server.dialects.common.replies import answer_json
from server.dialects.common.serving import find_service
from server.errors import refuse
from server.http.disconnects import wait_for_client
from server.http.openapi import ApiRouter, describe_errors
from server.models.served_models import ServedModels
from server.turns.compiled_request import compile_request
from server.turns.fields.common_fields import Fields
from server.turns.fields.request_lists import Numbers
from server.turns.service import Service

router = ApiRouter()
GREETING = {"messages": [{"role": "user", "content": "Hello!"}]}
NOT_LOADED = describe_errors(400, 401, 404, 503)


class TokenizeRequest(Fields):
    """A text to tokenize."""

    content: str = Field(max_length=1_000_000)
    """The text."""
    add_special: bool | None = None
    """The tokens begin with the BOS token."""
    parse_special: bool | None = None
    """Names of special tokens are these tokens; false: they are ordinary text."""
    with_pieces: bool | None = None
    """The reply has the text of each token."""


class DetokenizeRequest(Fields):
    """Tokens to convert to text."""

    tokens: Numbers = Field(max_length=1_000_000)
    """Token ids."""


@router.post_json("/tokenize", TokenizeRequest, {"content": "Hello!"})
async def tokenize(request: Request) -> Response:
    """Returns the tokens of a text."""
    _, _, encoded = await read_request(request, TokenizeRequest, _tokenize)
    return encoded


def _tokenize(body: TokenizeRequest, service: Service) -> Response:
    vocabulary = service.model.engine.vocabulary
    encode = vocabulary.encode if body.parse_special is False else vocabulary.encode_special
    try:
        tokens = [*encode(body.content)]
    except UnicodeEncodeError as error:
        raise refuse("content has a lone surrogate", "/content") from error
    if body.add_special and vocabulary.bos is not None:
        tokens.insert(0, vocabulary.bos)
    if not body.with_pieces:
        return answer_json({"tokens": tokens})
    shown = [{"id": token, "piece": _show_piece(vocabulary.tokens[token])} for token in tokens]
    return answer_json({"tokens": shown})


def _show_piece(piece: bytes) -> str | list[int]:
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return list(piece)  # part of a character: its bytes


@router.post_json("/detokenize", DetokenizeRequest, {"tokens": [1, 2, 3]})
async def detokenize(request: Request) -> Response:
    """Returns the text of tokens."""
    _, _, text = await read_request(request, DetokenizeRequest, _detokenize)
    return text


def _detokenize(body: DetokenizeRequest, service: Service) -> Response:
    vocabulary = service.model.engine.vocabulary
    count = len(vocabulary.tokens)
    for number, token in enumerate(body.tokens):
        if not 0 <= token < count:
            message = f"there is no token {token}; ids go from 0 to {count - 1}"
            raise refuse(message, f"/tokens/{number}")
    return answer_json({"content": vocabulary.text(body.tokens).decode("utf-8", "replace")})


@router.post_json("/apply-template", ChatRequest, GREETING)
async def apply_template(request: Request) -> Response:
    """Returns the prompt of a Chat Completion."""
    service, body, turn_request = await read_request(request, ChatRequest, ChatRequest.read)
    compiled = await wait_for_client(request, compile_request(service, turn_request))
    prompt = compiled.turn.prompt
    is_closed = body.add_generation_prompt is False and not body.continues_last_message
    text = prompt.closed if is_closed and prompt.closed is not None else prompt.text
    # Not on the event loop: the template's output may have millions of characters.
    write = partial(answer_json, {"prompt": text})
    return await run_off_loop(request, service, write, quick=False)


@router.get("/props", responses=NOT_LOADED)
async def show_properties(request: Request) -> JsonObject:
    """Returns the properties of the model and its options."""
    service = await find_service(request)
    models: ServedModels = request.app.state.models
    await models.read_facts()
    facts = models.get(service.name).facts
    engine = service.model.engine
    compiler = service.model.compiler
    vocabulary = engine.vocabulary
    return {
        "default_generation_settings": {
            "n_ctx": engine.context_length,
            "params": _show_sampling(service.model.sampling),
        },
        "total_slots": engine.max_sequences,
        "model_alias": service.name,
        "model_path": service.name,
        "meta": describe_file(facts),
        "chat_template": compiler.template.source,
        "bos_token": compiler.template.tokens["bos_token"],
        "eos_token": vocabulary.text(vocabulary.end[:1]).decode("utf-8", "replace"),
        "modalities": {"vision": False, "audio": False},
        "tool_format": compiler.format.name,
        "build_info": "constrained",
        "is_sleeping": False,
    }


def _show_sampling(sampling: Sampling) -> JsonObject:
    """Returns the sampling in llama-server's names."""
    return {
        "seed": -1 if sampling.seed is None else sampling.seed,
        "temperature": sampling.temperature,
        "top_k": sampling.top_k,
        "top_p": sampling.top_p,
        "min_p": sampling.min_p,
        "repeat_penalty": sampling.repeat_penalty,
        "repeat_last_n": sampling.penalty_last_n,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
    }


@router.get("/slots", responses=NOT_LOADED)
async def show_slots(request: Request) -> list[JsonObject]:
    """Lists the sequences; the number of processing ones equals that of running turns."""
    model = (await find_service(request)).model
    metrics = model.metrics()
    length = model.engine.context_length
    return [
        {"id": number, "n_ctx": length, "is_processing": number < metrics.running}
        for number in range(metrics.sequences)
    ]
