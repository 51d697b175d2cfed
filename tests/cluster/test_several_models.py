"""A cluster of two models on this machine: each has replicas of its own."""

from pathlib import Path

import httpx
import pytest

from constrained.model_files import embedded
from tests.cluster.running_cluster import run_cluster

pytestmark = pytest.mark.cluster
PRESETS = f"""\
[one]
model = {embedded.PATH}
alias = first, gpt-*

[other]
model = {embedded.PATH}
replicas = 2
ctx-size = 512
"""
LONG = "one " * 700


def test_each_request_goes_to_a_replica_of_its_model(tmp_path: Path) -> None:
    presets = tmp_path / "models.ini"
    presets.write_text(PRESETS)
    arguments = ("--models-preset", str(presets), "-np", "2", "-c", "4096", "--replicas", "1")
    with run_cluster(*arguments) as running, httpx.Client(base_url=running.url, timeout=90) as http:
        assert len(running.find_replicas()) == 3

        def ask(model: str, text: str = "Hello!") -> httpx.Response:
            messages = [{"role": "user", "content": text}]
            body = {"model": model, "messages": messages, "max_tokens": 5}
            return http.post("/v1/chat/completions", json=body)

        listed = [model["id"] for model in http.get("/v1/models").json()["data"]]
        assert {"one", "other"} <= set(listed)
        for name in ("one", "gpt-5", "other"):
            reply = ask(name)
            assert reply.status_code == 200, reply.text
        assert ask("one", LONG).status_code == 200
        refused = ask("other", LONG)  # whose context is an eighth of that
        assert refused.status_code == 400
        assert "context" in refused.text
        assert ask("third").status_code == 404
