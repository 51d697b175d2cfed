"""The application: its dialects, its middleware, and its errors."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

import constrained
from constrained.model.loaded_model import LoadedModel
from grammars.errors import Error
from server.dialects.chat import routes as chat
from server.dialects.common import server_routes
from server.dialects.common.body import describe_mistakes
from server.dialects.messages import routes as messages
from server.dialects.messages.reply import encode_anthropic_error
from server.dialects.ollama import routes as ollama
from server.dialects.ollama.reply import encode_ollama_error
from server.dialects.responses import routes as responses
from server.dialects.responses.shared_responses import SharedResponses
from server.dialects.responses.store import ResponseStore
from server.errors import HttpError, as_http_error, log_error
from server.http.dialect import Dialect, find_dialect
from server.http.disconnects import make_gone
from server.http.gate import OPEN, Cors, Gate, NoteRequest
from server.http.leases import Leases
from server.http.openapi import complete_document
from server.http.unknown_paths import explain_unknown_path
from server.models.served_models import ModelBounds, ServedModels
from server.models.shared_store import SharedStore
from server.models.source import ModelSource
from server.observe import metrics
from server.observe.metrics import Counters
from server.observe.telemetry import Telemetry, find_tracer
from server.playground import routes as playground
from server.settings import Settings
from server.turns.observers import Observers

CODES = {
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    413: "request_too_large",
}
DIALECTS = (
    Dialect(chat.router),
    Dialect(
        messages.router,
        prefixes=["/messages"],
        encode_error=encode_anthropic_error,
        id_headers=[b"x-request-id", b"request-id"],  # the latter is what its SDKs show
    ),
    Dialect(responses.router),
    Dialect(ollama.router, prefixes=["/api/"], encode_error=encode_ollama_error),
)
ALL_ROUTERS = (
    *(dialect.router for dialect in DIALECTS),
    server_routes.router,
    metrics.router,
    playground.router,
)


def make_app(
    load: Callable[[], LoadedModel] | Sequence[ModelSource],
    settings: Settings | None = None,
    bounds: ModelBounds | None = None,
    *,
    name: str = "demo",
    stop: Callable[[Exception], None] | None = None,
    address: str = "",
    store: SharedStore | None = None,
) -> FastAPI:
    """Makes the application for one model or several.

    Args:
        load: gives the one model, in a thread, when the application starts; until then, requests
            get 503. The application closes it. Or the models that there are.
        stop: called with the error if a model cannot be loaded that the application starts with.
        store: what this server shares with others. The application closes it.
    """
    settings = settings or Settings()
    counters = Counters()
    if not isinstance(load, Sequence):
        load = [ModelSource(name, load, preloaded=True)]
    telemetry = Telemetry(find_tracer()) if settings.otel else None
    models = ServedModels(
        load,
        settings,
        bounds,
        observers=Observers(counters, telemetry),
        address=address,
        store=store,
    )
    app = FastAPI(
        title="constrained",
        version=constrained.__version__,
        lifespan=_run,
        openapi_url=None,  # our own route makes the document in a thread
        docs_url=None,  # the pages of FastAPI load scripts from other hosts
        redoc_url=None,
    )
    app.state.models = models
    app.state.settings = settings
    app.state.counters = counters
    app.state.store = store
    app.state.stop = stop
    if store is None:
        app.state.responses = ResponseStore(settings.max_stored, settings.max_stored_bytes)
    else:
        app.state.responses = SharedResponses(store, settings.max_stored_bytes)
    for router in ALL_ROUTERS:
        app.include_router(router)
    _add_errors(app)
    complete_document(app, settings, OPEN)
    _add_middleware(app, settings, counters.note_request)
    return app


def _add_middleware(app: FastAPI, settings: Settings, note_request: NoteRequest) -> None:
    app.add_middleware(Leases)
    app.add_middleware(Gate, dialects=DIALECTS, settings=settings, note_request=note_request)
    if settings.cors_origins:
        app.add_middleware(
            Cors,
            allow_origins=list(settings.cors_origins),
            allow_methods=["*"],
            allow_headers=["*"],
        )


@asynccontextmanager
async def _run(app: FastAPI) -> AsyncIterator[None]:
    state = app.state
    async with AsyncExitStack() as ending:
        if state.store is not None:
            ending.callback(state.store.close)
        state.models.start(state.stop)
        ending.push_async_callback(state.models.close)
        yield


def _add_errors(app: FastAPI) -> None:
    async def refuse(request: Request, error: Exception) -> Response:
        log_error(error)
        return _answer(request, as_http_error(error))

    async def refuse_query(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        details = list[dict[str, Any]]()
        for detail in error.errors():
            _, *location = detail["loc"]  # without "query": bodies are validated elsewhere
            details.append({**detail, "loc": location})
        fault = describe_mistakes(details, dict(request.query_params))
        return _answer(request, fault)

    async def refuse_path(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        code = CODES.get(error.status_code, "invalid_value")
        message = f"{request.method} {request.url.path}: {error.detail}"
        if error.status_code == 404:
            path, method = request.url.path, request.method
            message += f". {explain_unknown_path(path, method, ALL_ROUTERS)}"
        if error.status_code == 405 and error.headers:
            message += f". Use {error.headers['Allow']}"
        response = _answer(request, HttpError(error.status_code, message, code))
        response.headers.update(error.headers or {})
        return response

    async def leave(request: Request, error: Exception) -> Response:
        return _answer(request, make_gone())

    app.add_exception_handler(Error, refuse)
    app.add_exception_handler(ClientDisconnect, leave)
    app.add_exception_handler(RequestValidationError, refuse_query)
    app.add_exception_handler(HTTPException, refuse_path)
    app.add_exception_handler(Exception, refuse)


def _answer(request: Request, fault: HttpError) -> Response:
    return find_dialect(DIALECTS, request.url.path).answer(fault)
