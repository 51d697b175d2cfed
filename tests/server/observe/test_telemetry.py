"""One record for each reply: as a line of the log, as metrics, as a span."""

import json
import logging
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

from constrained.decode.metrics import Amount, Metrics
from constrained.decode.request import Usage
from grammars.limits.byte_cache import CacheSize
from server.commands.logs import JsonFormatter
from server.observe.metrics import MAX_TOOLS, OTHER, Counters
from server.observe.telemetry import NANOSECONDS, Telemetry
from server.turns.request_record import Durations, RequestRecord
from tests.scripted_model import scripted
from tests.server.running_server import running
from tests.templates import PING, hermes_call

RECORD = RequestRecord(
    model="m",
    format="hermes",
    finish="tool_calls",
    usage=Usage(
        prompt_tokens=100,
        cached_tokens=64,
        completion_tokens=10,
        drafted_tokens=4,
        accepted_tokens=3,
        forward_passes=7,
    ),
    durations=Durations(compile=0.1, queue=0.2, prefill=0.3, generation=0.4),
    calls=(("f", "valid"), ("g", "unfit")),
)
DEPLOY = Path(__file__).parents[3] / "examples" / "deploy"
NO_METRICS = Metrics(1, Amount(), Amount(), Amount())
ASK: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "tools": [PING]}


def test_a_span():
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    Telemetry(provider.get_tracer("t"), clock=lambda: 1000.0).note(RECORD)
    [span] = exporter.get_finished_spans()
    assert span.name == "chat m"
    assert (span.start_time, span.end_time) == (999 * NANOSECONDS, 1000 * NANOSECONDS)
    assert [event.name for event in span.events] == ["compile", "queue", "prefill", "generation"]
    attributes = dict(span.attributes or {})
    assert attributes["gen_ai.operation.name"] == "chat"
    assert attributes["gen_ai.usage.input_tokens"] == 100
    assert attributes["gen_ai.usage.cache_read.input_tokens"] == 64
    assert attributes["gen_ai.response.finish_reasons"] == ("tool_calls",)
    assert attributes["constrained.calls"] == ("f", "g")
    assert attributes["constrained.outcomes"] == ("valid", "unfit")
    assert attributes["constrained.queue_seconds"] == 0.2


def test_a_line_of_json():
    record = logging.LogRecord("n", logging.INFO, "f", 1, "%s\n", (RECORD,), None)
    record.fields = RECORD.fields
    line = JsonFormatter().format(record)
    assert "\n" not in line
    shown = json.loads(line)
    assert shown["level"] == "info"
    assert shown["cached_tokens"] == 64
    assert shown["generation_seconds"] == 0.4
    assert shown["calls"][1] == {"name": "g", "outcome": "unfit"}


def test_metrics():
    counters = Counters()
    counters.note_record(RECORD)
    counters.note_record(replace(RECORD, repeated_calls=2))
    text = counters.write(NO_METRICS).decode()
    assert 'constrained_calls_total{outcome="unfit",tool="g"} 2.0' in text
    assert "constrained_queue_seconds_sum 0.4" in text
    assert "constrained_repeated_calls_total 1.0" in text
    assert "constrained_token_seconds_count 2.0" in text


def test_names_of_tools_are_bounded():
    counters = Counters()
    for number in range(MAX_TOOLS + 50):
        counters.note_record(replace(RECORD, calls=((f"tool_{number}", "valid"),)))
    text = counters.write(NO_METRICS).decode()
    assert text.count('constrained_calls_total{outcome="valid"') == MAX_TOOLS + 1
    assert f'constrained_calls_total{{outcome="valid",tool="{OTHER}"}} 50.0' in text


def test_what_a_server_notes(caplog: pytest.LogCaptureFixture):
    with running(scripted(hermes_call("ping"))) as client, caplog.at_level(logging.INFO):
        client.post("/v1/chat/completions", json=ASK)
        metrics = client.get("/metrics").text
    [fields] = [vars(one)["fields"] for one in caplog.records if hasattr(one, "fields")]
    assert fields["calls"] == [{"name": "ping", "outcome": "valid"}]
    assert fields["compile_seconds"] > 0
    assert fields["grammar_hash"] != ""
    assert fields["tools"] == 1
    assert 'constrained_calls_total{outcome="valid",tool="ping"} 1.0' in metrics


def read_samples() -> dict[str, set[str]]:
    """The names of all samples that a server emits, with their labels."""
    counters = Counters()
    counters.note_record(replace(RECORD, repeated_calls=1))
    counters.note_request("/", 200)
    metrics = replace(NO_METRICS, caches={"turns": CacheSize(1, 1)})
    samples: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(counters.write(metrics).decode()):
        for sample in family.samples:
            samples.setdefault(sample.name, set()).update(sample.labels)
    return samples


def read_dashboard() -> Any:
    return json.loads((DEPLOY / "grafana.json").read_text("utf-8"))


@pytest.mark.parametrize("panel", read_dashboard()["panels"], ids=lambda panel: panel["title"])
def test_the_dashboard_asks_for_metrics_that_exist(panel: Any):
    samples = read_samples()
    for target in panel["targets"]:
        expression = target["expr"]
        asked = set(re.findall(r"\b(?!by\b)[a-z]\w+(?=\[|\b(?!\())", expression))
        asked = {name for name in asked if "_" in name and name != "histogram_quantile"}
        assert asked
        assert asked <= samples.keys()
        labels = set(re.findall(r"\bby \((\w+)\)", expression))
        labels |= set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
        for name in asked:
            assert labels <= samples[name]


def test_the_dashboard_is_one_of_grafana():
    """What its model of a dashboard asks for, see `grafana_foundation_sdk.models.dashboard`."""
    dashboard = read_dashboard()
    assert type(dashboard["schemaVersion"]) is int
    assert dashboard["uid"]
    [variable] = dashboard["templating"]["list"]
    assert (variable["type"], variable["query"]) == ("datasource", "prometheus")
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        assert panel["datasource"] == {"type": "prometheus", "uid": f"${{{variable['name']}}}"}
        assert panel["fieldConfig"]["defaults"]["unit"]
        references = [target["refId"] for target in panel["targets"]]
        assert len(set(references)) == len(references)
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24  # columns of Grafana's grid
        assert not cells & taken, "panels lie on each other"
        taken |= cells
