"""Counters of the server, in the text format of Prometheus.

Names and format: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from fastapi import APIRouter, Request
from fastapi.responses import Response
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

from constrained.decode.metrics import Metrics
from constrained.engine.host import measure_heap
from constrained.model.reply import Usage
from grammars.limits.byte_cache import measure_shared
from server.http.openapi import describe_errors, describe_text
from server.turns.request_record import Durations, RequestRecord

MAX_TOOLS = 200
"""Tools that are counted by name: each name is a time series for good, and clients choose them."""
OTHER = "other"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 60, 120, 300)
TOKEN_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2)


class Counters:
    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)  # memory, descriptors, time of the processors
        self._requests = Counter(
            "constrained_requests", "Requests answered", ["path", "status"], registry=registry
        )
        text = "Turns that were cancelled or failed"
        self._unfinished = Counter("constrained_unfinished", text, registry=registry)
        text = "Turns by how they ended (stop, tool_calls, length, cancelled, error)"
        self._turns = Counter("constrained_turns", text, ["finish"], registry=registry)
        text = "Requests whose conversation has the same call three times or more"
        self._repeated = Counter("constrained_repeated_calls", text, registry=registry)
        kinds = vars(Usage(0, 0, 0))
        self._tokens = {
            kind: Counter(f"constrained_{kind}", f"Usage: {kind}", registry=registry)
            for kind in kinds
        }
        self._durations = {
            name: Histogram(
                f"constrained_{name}_seconds",
                f"Seconds of a reply: {name}",
                registry=registry,
                buckets=SECONDS,
            )
            for name in vars(Durations())
        }
        text = "Seconds per generated token, of each reply"
        self._token_seconds = Histogram(
            "constrained_token_seconds", text, registry=registry, buckets=TOKEN_SECONDS
        )
        text = "Calls in replies, by tool and outcome (valid, unfit, truncated)"
        self._calls = Counter("constrained_calls", text, ["tool", "outcome"], registry=registry)
        text = "Calls that the model began in another form than its own, by form"
        self._envelopes = Counter("constrained_envelopes", text, ["kind"], registry=registry)
        self._tools: set[str] = set()
        self._gauges = {
            name: Gauge(f"constrained_{name}", text, registry=registry)
            for name, text in GAUGES.items()
        }

        text = "Bytes kept from earlier requests, by cache"
        self._cache_bytes = Gauge("constrained_cache_bytes", text, ["cache"], registry=registry)
        text = "Entries kept from earlier requests, by cache"
        self._cache_entries = Gauge("constrained_cache_entries", text, ["cache"], registry=registry)
        text = "Bytes held by malloc: used, or free and not returned to the system"
        self._heap = Gauge("constrained_heap_bytes", text, ["state"], registry=registry)

    def note_request(self, path: str, status: int) -> None:
        """A request was answered; `path` is the path of the route, so that there are few values."""
        self._requests.labels(path, str(status)).inc()

    def note_usage(self, usage: Usage) -> None:
        for kind, count in vars(usage).items():
            self._tokens[kind].inc(count)

    def note_record(self, record: RequestRecord) -> None:
        """Counts a finished turn: its times, tokens and result. The times of one that was cancelled
        or has failed are no times of a reply."""
        self._turns.labels(record.finish).inc()
        if not record.is_finished:
            return
        for name, seconds in vars(record.durations).items():
            self._durations[name].observe(seconds)
        count = record.usage.completion_tokens
        if count:
            self._token_seconds.observe(record.durations.generation / count)
        for tool, outcome in record.calls:
            self._calls.labels(self._name_tool(tool), outcome).inc()
        for kind in record.envelopes:
            self._envelopes.labels(kind).inc()
        if record.repeated_calls:
            self._repeated.inc()

    def _name_tool(self, tool: str) -> str:
        if tool not in self._tools and len(self._tools) >= MAX_TOOLS:
            return OTHER
        self._tools.add(tool)
        return tool

    def note_unfinished(self, count: int) -> None:
        self._unfinished.inc(count)

    def write(self, metrics: Metrics) -> bytes:
        values = {
            "running": metrics.running,
            "waiting": metrics.waiting,
            "sequences": metrics.sequences,
            "kv_cache_tokens": metrics.kv_cache.tokens,
            "memory_tokens": metrics.memory.tokens,
            "memory_bytes": metrics.memory.bytes,
            "disk_tokens": metrics.disk.tokens,
            "disk_bytes": metrics.disk.bytes,
            "snapshot_hits": metrics.hits,
            "snapshot_misses": metrics.misses,
            "snapshot_failures": metrics.failures,
        }
        for name, value in values.items():
            self._gauges[name].set(value)
        for name, size in {**metrics.caches, **measure_shared()}.items():
            self._cache_bytes.labels(name).set(size.bytes)
            self._cache_entries.labels(name).set(size.count)
        heap = measure_heap()
        if heap is not None:
            self._heap.labels("used").set(heap.used)
            self._heap.labels("free").set(heap.free)
        return generate_latest(self._registry)


GAUGES = {
    "running": "Running turns",
    "waiting": "Turns that wait for a sequence",
    "sequences": "Turns that can run at the same time",
    "kv_cache_tokens": "Tokens in the sequences",
    "memory_tokens": "Tokens of snapshots in memory",
    "memory_bytes": "Bytes of snapshots in memory",
    "disk_tokens": "Tokens of snapshots in files",
    "disk_bytes": "Bytes of snapshots in files",
    "snapshot_hits": "Prompts that continued from a snapshot",
    "snapshot_misses": "Prompts that had no snapshot to continue from",
    "snapshot_failures": "Snapshots that could not be kept or used",
}


router = APIRouter()


@router.get(
    "/metrics",
    responses=describe_text("text/plain", "The counters") | describe_errors(401),
    response_class=Response,
)
async def show_metrics(request: Request) -> Response:
    """The counters for Prometheus, summed over all loaded models."""
    text = request.app.state.counters.write(request.app.state.models.measure())
    return Response(text, media_type=CONTENT_TYPE_LATEST)
