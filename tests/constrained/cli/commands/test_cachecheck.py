"""`constrained cachecheck`: what it prints, and how it ends."""

import json

from constrained.cli.terminal.exit_codes import ExitCode
from tests.command_line import Run
from tests.constrained.inspect.cache_check.served_cache import KEY, ServedCache, serving
from tests.scripted_model import scripted
from tests.server.running_server import running
from tests.unstable_templates import LAST_QUERY


def test_the_server_of_this_project(run: Run):
    with running(scripted("Hello.")) as client:
        code, out, err = run("cachecheck", str(client.base_url), "--json")
    told = json.loads(out)
    assert (code, err) == (ExitCode.DONE, "")
    assert told["reads_cache"]
    assert told["has_template"]
    assert told["source"] == "usage.prompt_tokens_details.cached_tokens"
    rows = {row["name"]: row for row in told["rows"]}
    for name in ("plain chat", "system and tools", "tool loop", "reasoning kept"):
        assert rows[name]["lost"] == 0
    header = rows["a header that rotates"]
    assert header["lost"] > 0.9 * header["expected"]


def test_a_table_and_a_remedy_a_line(run: Run):
    with serving(ServedCache(source=LAST_QUERY)) as url:
        code, out, err = run("cachecheck", url, "--api-key", KEY, "--model", "some-model")
    assert (code, err) == (ExitCode.DONE, "")
    assert out.startswith(f"{url}, some-model: ")
    lines = out.splitlines()
    (header,) = (line for line in lines if line.startswith("shape or habit"))
    assert header.split("  ")[-1] == "what to do"
    assert any(line.startswith("  -> reasoning kept: ") and "line " in line for line in lines)
    assert any(line.startswith("plain chat ") and line.endswith("  nothing") for line in lines)


def test_a_server_that_reads_nothing_from_a_cache_is_exit_code_1(run: Run):
    with serving(ServedCache(has_cache=False)) as url:
        code, out, _ = run("cachecheck", url)
    assert code == ExitCode.NEGATIVE
    assert "No cache reads were found" in out


def test_the_key_of_the_environment(run: Run, monkeypatch):
    with serving(ServedCache()) as url:
        monkeypatch.setenv("LLAMA_API_KEY", "wrong")
        code, _, err = run("cachecheck", url)
        assert (code, "401" in err) == (ExitCode.USAGE, True)
        assert run("cachecheck", url, "--api-key", KEY)[0] == ExitCode.DONE


def test_a_server_that_is_not_there(run: Run):
    with serving(ServedCache()) as url:
        pass
    code, _, err = run("cachecheck", url)
    assert code == ExitCode.USAGE
    assert "cannot be reached" in err
