"""`constrained serve`: what its options mean, and the process that it is."""

import gc
import json
import signal
import socket
import threading
import urllib.error
import urllib.request
from datetime import datetime
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import gguf
import pytest
from huggingface_hub import constants

from constrained.cli.declared import complete
from constrained.cli.options import choose_sequences, read_engine_options
from constrained.cli.terminal.exit_codes import ExitCode
from constrained.errors import Error, RequestError
from constrained.model_files import embedded
from server.commands.serve_options import SEQUENCES, read_settings
from server.commands.server_process import end_by_signal, find_models, run_server
from server.settings import MIB, ReasoningField, Settings
from tests.embedding_file import write_embedding_model
from tests.server.commands.serve_arguments import read
from tests.server.started_server import PATIENCE, begin, start


def test_the_defaults_let_this_machine_ask_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LLAMA_API_KEY", raising=False)
    options = read()
    complete(options)
    assert (options.host, options.port) == ("127.0.0.1", 8080)
    settings = read_settings(options)
    assert settings.api_keys == settings.cors_origins == ()
    assert not settings.log_prompts
    assert not settings.show_grammar
    assert not settings.share_cache
    assert read_settings(read("--share-cache")).share_cache


def test_options_become_settings(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("two\nthree\n")
    arguments = ["--api-key", "one", "--api-key-file", str(keys), "--max-body", "2"]
    arguments += ["--reasoning-field", "both", "--date", "2026-01-31", "--cors-origin", "http://a"]
    settings = read_settings(read(*arguments))
    assert settings.api_keys == ("one", "two", "three")
    assert settings.max_body == 2 * MIB
    assert settings.reasoning_field is ReasoningField.BOTH
    assert settings.date == datetime(2026, 1, 31)
    assert settings.cors_origins == ("http://a",)


LIMITS = {
    "max_body": 2**20,
    "max_values": 1,
    "max_tools": 1,
    "max_choices": 1,
    "max_schema": 1024,
    "max_template_kwargs": 1024,
}


@pytest.mark.parametrize("name", LIMITS)
def test_limits_are_options(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    option = f"--{name.replace('_', '-')}"
    assert getattr(read_settings(read()), name) == getattr(Settings(), name)
    assert getattr(read_settings(read(option, "7")), name) == 7 * LIMITS[name]
    with pytest.raises(SystemExit):
        read(option, "0")
    assert f"argument {option}: must be 1 or more, is 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sequences"),
    [
        ([], 4),
        (["-np", "2"], 2),
        (["-np", "-1"], 4),
        (["-b", "3"], 3),
        (["-b", "3", "-np", "2"], 2),
    ],
)
def test_the_number_of_sequences(
    arguments: list[str], sequences: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LLAMA_ARG_N_PARALLEL", raising=False)
    options = read(*arguments)
    complete(options)
    choose_sequences(options, SEQUENCES)
    assert read_engine_options(options).get("sequences") == sequences


@pytest.mark.parametrize(
    ("arguments", "hosts"),
    [
        ([], ("localhost", "127.0.0.1", "[::1]")),
        (["--allowed-hosts", "Box.local"], ("box.local", "localhost", "127.0.0.1", "[::1]")),
        (["--allowed-hosts", "*"], None),
        (["--host", "0.0.0.0"], None),
        (
            ["--host", "0.0.0.0", "--allowed-hosts", "a.b, c"],
            ("a.b", "c", "localhost", "127.0.0.1", "[::1]"),
        ),
    ],
)
def test_the_names_of_the_server(arguments: list[str], hosts: tuple[str, ...] | None) -> None:
    assert read_settings(read(*arguments)).allowed_hosts == hosts


def test_a_key_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMA_API_KEY", "secret")
    for words, key in (([], "secret"), (["--api-key", "other"], "other")):
        options = read(*words)
        complete(options)
        assert read_settings(options).api_keys == (key,)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--api-key", ""], "empty"),
        (["--date", "tomorrow"], "--date"),
    ],
)
def test_what_cannot_be_is_refused(arguments: list[str], word: str) -> None:
    with pytest.raises(RequestError, match=word):
        read_settings(read(*arguments))


def test_an_empty_file_of_keys_does_not_open_the_server(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("\n")
    with pytest.raises(RequestError, match="empty"):
        read_settings(read("--api-key-file", str(tmp_path / "keys")))


def test_models_that_are_downloaded_are_named_where_the_demo_model_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("LLAMA_ARG_MODEL", "OLLAMA_MODELS", "LLAMA_CACHE"):
        monkeypatch.delenv(name, raising=False)
    snapshot = tmp_path / "models--org--embedder" / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    write_embedding_model(snapshot / "e-F32.gguf", gguf.PoolingType.MEAN)  # which is not named
    caplog.set_level("INFO")
    options = read()
    complete(options)
    [demo] = find_models(options)
    assert demo.path == embedded.PATH
    assert caplog.messages == []
    for number in range(7):
        snapshot = tmp_path / f"models--org--m{number}" / "snapshots" / "1"
        snapshot.mkdir(parents=True)
        (snapshot / "m-Q4_K_M.gguf").write_bytes(b"GGUF")
    assert [source.name for source in find_models(options)] == ["demo"]
    named = ", ".join(f"-m hf:org/m{number}:Q4_K_M" for number in range(5))
    told = "serving the demo model; to serve a downloaded one"
    assert caplog.messages == [f"{told}: {named}, 2 more (constrained models)"]
    options.model = str(embedded.PATH)
    find_models(options)
    assert len(caplog.messages) == 1


def test_a_server_that_cannot_start_leaves_the_collector_as_it_was() -> None:
    before = gc.get_threshold(), len(gc.callbacks)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        options = read("-m", "nothing.gguf", "--port", str(taken.getsockname()[1]))
        with pytest.raises(Error):
            run_server(options, read_settings(options))
    assert (gc.get_threshold(), len(gc.callbacks)) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("given", [signal.SIG_IGN, signal.default_int_handler])
def test_a_signal_that_is_ignored_stays_so(given: Any, number: signal.Signals) -> None:
    before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)}
    signal.signal(number, given)
    try:
        other = threading.Thread(target=end_by_signal)  # a failure would be a warning, an error
        other.start()
        other.join()
        assert signal.getsignal(number) == given
        end_by_signal()
        is_ignored = given == signal.SIG_IGN
        assert signal.getsignal(number) == (given if is_ignored else signal.SIG_DFL)
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def post(url: str, body: dict[str, Any]) -> HTTPResponse:
    headers = {"Content-Type": "application/json"}
    return urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers))


def test_the_process_serves_and_ends_well() -> None:
    process, port = start("-t", "1", "-c", "1024")
    url = f"http://127.0.0.1:{port}"
    try:
        body: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello!"}]}
        body |= {"model": "demo", "max_tokens": 8}
        with post(f"{url}/v1/chat/completions", body) as response:
            assert json.load(response)["choices"][0]["message"]["content"]
        for path in ("/%0aERROR:%20forged%1b[2J", "/v1/models/%0aERROR:%20forged%1b[2J"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(url + path)
    finally:
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=PATIENCE)
    assert process.returncode in (0, -signal.SIGTERM)
    assert "using the included demo model" in log
    assert f"open {url}/ in a browser" in log
    assert "Traceback" not in log
    assert "forged" in log
    for line in log.splitlines():  # those of uvicorn, too
        assert line.startswith(("INFO: ", "WARNING: "))
        assert line.isprintable()


def test_a_model_that_is_not_there_ends_the_process(tmp_path: Path) -> None:
    process, _ = begin("-m", str(tmp_path / "no\nERROR: forged\x1b[2Jne.gguf"))
    _, log = process.communicate(timeout=PATIENCE)
    assert process.returncode == ExitCode.MODEL, log
    assert "ne.gguf" in log
    assert "listening" not in log
    assert "Traceback" not in log
    assert not any(line.startswith("ERROR: forged") for line in log.splitlines())
    assert "\x1b" not in log
