"""OpenTelemetry spans that follow the conventions for generative AI (extra `otel`).

https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/

OpenTelemetry's own environment variables, such as OTEL_EXPORTER_OTLP_ENDPOINT, say where spans go.
They contain no messages, arguments or replies.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from constrained.errors import RequestError
from server.turns.request_record import RequestRecord

PROVIDER = "constrained"
NANOSECONDS = 10**9


class Tracer(Protocol):
    def start_span(self, name: str, *, start_time: int, attributes: Mapping[str, Any]) -> Any: ...


def find_tracer() -> Tracer:
    """Makes a tracer that exports spans by OTLP."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as e:
        hint = "pip install 'constrained-calls[otel]'"
        raise RequestError("--otel needs the packages of OpenTelemetry", hint=hint) from e
    provider = TracerProvider(resource=Resource.create({"service.name": PROVIDER}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider.get_tracer(PROVIDER)


class Telemetry:
    """Writes a span for each reply, with an event for each phase. The clock returns the seconds
    since the epoch."""

    def __init__(self, tracer: Tracer, clock: Callable[[], float] = time.time):
        self._tracer = tracer
        self._clock = clock

    def note(self, record: RequestRecord) -> None:
        end = self._clock()
        start = end - record.durations.total
        span = self._tracer.start_span(
            f"chat {record.model}",
            start_time=_as_nanoseconds(start),
            attributes=describe(record),
        )
        for name, seconds in vars(record.durations).items():  # where each phase begins
            span.add_event(name, {"seconds": seconds}, timestamp=_as_nanoseconds(start))
            start += seconds
        if record.error:
            from opentelemetry.trace import Status, StatusCode

            span.set_status(Status(StatusCode.ERROR, record.error))
        span.end(end_time=_as_nanoseconds(end))


def describe(record: RequestRecord) -> dict[str, Any]:
    """Returns the attributes of a span: first those of the conventions, then our own."""
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": PROVIDER,
        "gen_ai.request.model": record.model,
        "gen_ai.response.model": record.model,
        "gen_ai.response.finish_reasons": [record.finish],
        "gen_ai.usage.input_tokens": record.usage.prompt_tokens,
        "gen_ai.usage.output_tokens": record.usage.completion_tokens,
        "gen_ai.usage.cache_read.input_tokens": record.usage.cached_tokens,
    }
    for name, value in record.fields.items():
        if name not in ("model", "finish", "calls", "prompt_tokens", "completion_tokens"):
            attributes[f"constrained.{name}"] = value
    if record.error:
        attributes["error.type"] = record.error
    names: Sequence[str] = [name for name, _ in record.calls]
    if names:
        attributes["constrained.calls"] = names
        attributes["constrained.outcomes"] = [outcome for _, outcome in record.calls]
    return attributes


def _as_nanoseconds(seconds: float) -> int:
    return int(seconds * NANOSECONDS)
