"""A cluster with one replica on this machine: there is no other one to go to."""

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.cluster.running_cluster import run_cluster

pytestmark = pytest.mark.cluster
OPTIONS = ("-np", "1", "-c", "2048", "--replicas", "1", "--fronts", "2", "--max-waiting", "1")


def test_too_many_requests_are_refused_and_the_next_are_answered() -> None:
    with run_cluster(*OPTIONS) as running:

        def ask(tokens: int) -> httpx.Response:
            messages = [{"role": "user", "content": "Tell me a long story."}]
            body = {"model": "demo", "messages": messages, "max_tokens": tokens}
            return httpx.post(f"{running.url}/v1/chat/completions", json=body, timeout=120)

        with ThreadPoolExecutor(8) as pool:
            replies = list(pool.map(ask, [300] * 8))
        statuses = [reply.status_code for reply in replies]
        assert set(statuses) <= {200, 503}
        assert 200 in statuses
        assert [ask(5).status_code for _ in range(4)] == [200] * 4
