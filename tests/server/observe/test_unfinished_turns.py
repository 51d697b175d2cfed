"""Turns that were cancelled or have failed leave a record: a span, and a metric."""

from typing import Any

import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from server.settings import Settings
from tests.scripted_model import failing, scripted
from tests.server.running_server import running, wait_until

ASK: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9000}


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("server.observe.telemetry.find_tracer", lambda: provider.get_tracer("t"))
    monkeypatch.setattr("server.app.find_tracer", lambda: provider.get_tracer("t"), raising=False)
    return exporter


def read_turns(client: httpx.Client) -> list[str]:
    metrics = client.get("/metrics").text.splitlines()
    return [line for line in metrics if line.startswith("constrained_turns_total")]


def test_a_stream_that_its_client_leaves(spans: InMemorySpanExporter) -> None:
    with running(scripted("word " * 1500), Settings(otel=True)) as client:
        url = "/v1/chat/completions"
        with client.stream("POST", url, json={**ASK, "stream": True}) as response:
            chunks = response.iter_raw()
            assert any(b'"content":"o"' in chunk for chunk in chunks)
        wait_until(lambda: bool(read_turns(client)))
        assert read_turns(client) == ['constrained_turns_total{finish="cancelled"} 1.0']
    (span,) = spans.get_finished_spans()
    attributes = dict(span.attributes or {})
    assert attributes["gen_ai.response.finish_reasons"] == ("cancelled",)
    written = attributes["gen_ai.usage.output_tokens"]
    assert isinstance(written, int)
    assert 0 < written < 7500
    assert span.status.is_unset


@pytest.mark.parametrize("streams", [False, True])
def test_a_turn_that_fails_in_the_engine(spans: InMemorySpanExporter, streams: bool) -> None:
    with running(failing("Hello there, friend.", at=8), Settings(otel=True)) as client:
        response = client.post("/v1/chat/completions", json={**ASK, "stream": streams})
        assert response.status_code == (200 if streams else 500)
        wait_until(lambda: bool(read_turns(client)))
        assert read_turns(client) == ['constrained_turns_total{finish="error"} 1.0']
        assert "constrained_unfinished_total 1.0" in client.get("/metrics").text
        assert "constrained_generation_seconds_count 0.0" in client.get("/metrics").text
    (span,) = spans.get_finished_spans()
    attributes = dict(span.attributes or {})
    assert attributes["error.type"] == attributes["constrained.error"] != ""
    assert not span.status.is_ok
