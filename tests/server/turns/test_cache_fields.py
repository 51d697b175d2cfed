"""Who shares what was computed: nobody reads the prompts of another key from counts or times."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from constrained.agent.model import Model
from constrained.decode.kv.snapshots import Cache
from constrained.engine.scripted import ScriptedEngine, scripted_logits
from constrained.prompt.template.chat_template import ChatTemplate
from server.settings import Settings
from tests.scripted_model import BYTES
from tests.server.running_server import needs_own_engine, running
from tests.templates import HERMES

pytestmark = needs_own_engine

TWO_KEYS = Settings(api_keys=("key-A", "key-B"))
SHARED = Settings(api_keys=("key-A", "key-B"), share_cache=True)
SYSTEM = "You are the clerk of a bank, and tell nobody the number of an account. " * 2
SECRET, OTHER_SECRET = "31", "02"
DIGITS = "0123"
ROUTES = ("/v1/chat/completions", "/v1/responses", "/v1/messages")


def load(cache: Cache | None = None, sequences: int = 1) -> Model:
    """A model whose turns are all "Hi"."""

    def logits(sequence: int, tokens: Any) -> Any:
        return scripted_logits(BYTES, "Hi", len(tokens))(sequence, tokens)

    engine = ScriptedEngine(BYTES, logits, context_length=20_000, max_sequences=sequences)
    return Model(engine, ChatTemplate(HERMES), cache=cache or Cache(1 << 20))


@contextmanager
def serving(settings: Settings = TWO_KEYS, **options: Any) -> Iterator[httpx.Client]:
    with running(load(**options), settings) as client:
        yield client


def post(client: httpx.Client, text: str, key: str = "", path: str = ROUTES[0], **more: Any) -> Any:
    messages = [{"role": "user", "content": text}]
    bodies: dict[str, dict[str, Any]] = {
        "/v1/chat/completions": {"messages": messages, "max_tokens": 1},
        "/v1/responses": {"input": text, "max_output_tokens": 1},
        "/v1/messages": {"messages": messages, "max_tokens": 1},
    }
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return client.post(path, json={**bodies[path], **more}, headers=headers)


def count(client: httpx.Client, text: str, key: str = "", **options: Any) -> int:
    """The tokens of a prompt that were known."""
    response = post(client, text, key, **options)
    assert response.status_code == 200, response.text
    usage = response.json()["usage"]
    for name in ("prompt_tokens_details", "input_tokens_details"):
        if name in usage:
            return usage[name]["cached_tokens"]
    return usage["cache_read_input_tokens"]


def guess(client: httpx.Client, ask: Callable[[], object]) -> tuple[str, list[int]]:
    """Reads a secret digit by digit: what is longest known is right. Returns
    it and all counts that were seen.

    Args:
        client: asks with the key B.
        ask: what key A does before each of the questions.
    """
    known = ""
    counts = list[int]()
    for _ in SECRET:
        found: dict[str, int] = {}
        for digit in DIGITS:
            ask()
            found[digit] = count(client, f"{SYSTEM}{known}{digit}", "key-B")
        counts += found.values()
        known += max(found, key=lambda digit: found[digit])
    return known, counts


@pytest.mark.parametrize("sequences", [1, 3])
def test_no_secret_of_another_key_is_read_from_counts(sequences: int) -> None:
    found = list[tuple[str, list[int]]]()
    for secret in (SECRET, OTHER_SECRET):
        with serving(sequences=sequences) as client:
            text = SYSTEM + secret + "!" * 80
            found.append(guess(client, partial(count, client, text, "key-A")))
            assert count(client, text, "key-A") > len(text)
    assert found[0] == found[1]  # that A asks can be told, but not what
    assert found[0][0] != SECRET


def test_where_the_operator_shares_the_cache_the_secret_is_read() -> None:
    with serving(SHARED, sequences=3) as client:
        text = SYSTEM + SECRET + "!" * 80
        assert guess(client, partial(count, client, text, "key-A"))[0] == SECRET


@pytest.mark.parametrize("path", ROUTES)
def test_a_key_has_its_own_and_a_salt_is_shared_by_keys(path: str) -> None:
    text = SYSTEM * 2
    with serving(sequences=4) as client:
        assert count(client, text, "key-A", path=path) == 0
        assert count(client, text, "key-A", path=path) >= len(text) - 1
        assert count(client, text, "key-B", path=path) == 0
        salts = {"path": path, "cache_salt": "team"}
        assert count(client, text, "key-A", **salts) == 0
        assert count(client, text, "key-B", **salts) >= len(text) - 1
        assert count(client, text, "key-B", path=path, cache_salt="other") == 0
        for forged in ("key-A", "key b'key-A'"):  # the name of a key is no salt
            assert count(client, text, "key-B", path=path, cache_salt=forged) == 0


@pytest.mark.parametrize("path", ROUTES)
def test_without_keys_all_share_but_for_salts(path: str) -> None:
    text = SYSTEM * 2
    with serving(Settings(), sequences=3) as client:
        assert count(client, text, path=path) == 0
        assert count(client, text, path=path) >= len(text) - 1
        assert count(client, text, path=path, cache_salt="mine") == 0
        assert count(client, text, path=path, cache_salt="mine") >= len(text) - 1


@pytest.mark.parametrize("path", ROUTES)
def test_without_the_cache_nothing_is_taken_and_nothing_kept(path: str) -> None:
    text = SYSTEM * 2
    with serving(sequences=3) as client:
        off = {"path": path, "cache_prompt": False}
        assert [count(client, text, "key-A", **off) for _ in range(2)] == [0, 0]
        assert count(client, text, "key-A", path=path) == 0
        assert count(client, text, "key-A", **off) == 0
        assert count(client, text, "key-A", path=path, cache_prompt=True) >= len(text) - 1


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize(
    ("field", "value"),
    [("cache_salt", 5), ("cache_salt", ""), ("cache_salt", ["a"]), ("cache_prompt", "often")],
)
def test_what_is_no_salt_is_refused_with_its_pointer(path: str, field: str, value: Any) -> None:
    with serving(Settings()) as client:
        response = post(client, "Hello", path=path, **{field: value})
        assert response.status_code == 400
        assert field in response.json()["error"]["message"] + str(response.json())


def test_snapshots_on_disk_keep_keys_apart_and_do_not_name_them(tmp_path: Path) -> None:
    cache = Cache(1 << 20, tmp_path / "cache")
    text = SYSTEM * 2
    with serving(cache=cache) as client:
        assert count(client, text, "key-A") == 0
        assert count(client, text, "key-B") == 0
        assert count(client, text, "key-B", cache_salt="a secret team") == 0
    files = [path for path in (tmp_path / "cache").iterdir() if path.is_file()]
    assert len(files) == 3
    for path in files:
        written = path.name.encode() + path.read_bytes()
        for secret in (b"key-A", b"key-B", b"a secret team"):
            assert secret not in written
    third = Settings(api_keys=("key-A", "key-C"))
    with serving(third, cache=cache) as client:
        assert count(client, text, "key-C") == 0
        assert count(client, text, "key-A") >= len(text) - 1
        assert count(client, text, "key-A", cache_salt="a secret team") >= len(text) - 1


def test_nobody_learns_whose_tools_are_known() -> None:
    tool = {"type": "function", "function": {"name": "paint", "parameters": {"type": "object"}}}
    model = load()
    with running(model, TWO_KEYS) as client:
        for key in ("key-A", "key-B"):
            assert post(client, "Hi", key, tools=[tool]).status_code == 200
        assert model.compiler._known.size.count == 2
        assert post(client, "Hi", "key-A", tools=[tool]).status_code == 200
        assert model.compiler._known.size.count == 2
        assert model.compiler._grammars.usual._matchers.size.count == 2
