"""The commands beside `call` and `check`, and models by name."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import gguf
import pytest
from gguf.scripts.gguf_new_metadata import MetadataDetails, copy_with_new_metadata

from constrained.inspect.replay.replay_context import byte_tokenizer
from constrained.mask.matcher import Matcher
from constrained.prompt.format_selection.generic import CHATML
from examples.random_model import MARKERS, load_small, with_markers, write_model
from grammars.wire.format import find_named
from grammars.wire.format_text import load_format
from grammars.wire.formats import FORMATS
from tests.command_line import Run, write
from tests.hub_server import Hub, serve
from tests.templates import FOLDER, HERMES, PAINT, PING, hermes_call, tool

ROOT = FOLDER.parents[1]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    tokens = with_markers(load_small(), MARKERS)
    return str(write_model(tmp_path_factory.mktemp("model") / "m.gguf", tokens, HERMES))


@pytest.fixture(scope="module")
def greedy(model: str) -> str:
    """The same model with recommendations for sampling, one of them bad."""
    path = Path(model).with_name("greedy.gguf")
    writer = gguf.GGUFWriter(path, "qwen3")
    kinds = gguf.GGUFValueType
    values = {"temp": (kinds.FLOAT32, 0.0), "top_p": (kinds.STRING, "much")}
    new = {f"general.sampling.{key}": MetadataDetails(*pair) for key, pair in values.items()}
    copy_with_new_metadata(gguf.GGUFReader(model), writer, new, [])
    writer.close()
    return str(path)


@pytest.fixture
def tools(tmp_path: Path) -> str:
    return write(tmp_path / "tools.json", [PING, PAINT])


def takes(grammar: str, text: str, markers: tuple[str, ...] = ()) -> bool:
    """Does the grammar take all of the text, over the vocabulary of bytes?"""
    vocabulary, tokenizer = byte_tokenizer(markers)
    matcher = Matcher.compile(tokenizer, grammar)
    tokens = vocabulary.encode_special(text)
    return matcher.count_accepted(tokens) == len(tokens)


def test_a_grammar(run: Run, tools: str):
    code, grammar, err = run("grammar", "--tools", tools, "--format", "hermes")
    assert (code, err) == (0, "")
    assert takes(grammar, "<think>x</think>Well" + hermes_call("ping") + "\n" + hermes_call("ping"))
    assert not takes(grammar, hermes_call("pong"))
    words = ["grammar", "--tools", tools, "--format", "hermes", "--no-parallel"]
    grammar = run(*words, "--tool-choice", "ping", "--reasoning", "off")[1]
    assert takes(grammar, hermes_call("ping"))
    for text in ("Well", hermes_call("paint"), hermes_call("ping") + "\n" + hermes_call("ping")):
        assert not takes(grammar, text)


def test_a_grammar_of_a_template(run: Run, tools: str, model: str, monkeypatch: pytest.MonkeyPatch):
    path = str(FOLDER / "hermes.jinja")
    words = ["grammar", "--tools", tools, "--json", "--reasoning", "off"]
    code, out, err = run(*words, "--chat-template-file", path)
    assert (code, err) == (0, "")
    answer = json.loads(out)
    assert (answer["format"], answer["start_state"], answer["markers"]) == ("hermes", "closed", {})
    assert takes(answer["grammar"], hermes_call("ping"))
    out = run(*words, "--chat-template-file", path, "--markers", "token")[1]
    answer = json.loads(out)
    markers = ("<tool_call>", "</tool_call>", "<think>", "</think>")
    assert set(answer["markers"]) == set(markers)
    assert takes(answer["grammar"], hermes_call("ping"), markers)
    monkeypatch.setenv("LLAMA_ARG_MODEL", model)
    monkeypatch.setenv("LLAMA_ARG_CTX_SIZE", "much")
    answer = json.loads(run(*words)[1])
    tokens = with_markers(load_small(), MARKERS).tokens
    assert answer["markers"] == {marker: tokens.index(marker) for marker in markers}
    assert json.loads(run(*words, "--chat-template-file", path)[1])["markers"] == {}


def test_a_grammar_of_a_chosen_format(run: Run, tools: str):
    words = ["grammar", "--tools", tools, "--chat-template-file", str(FOLDER / "hermes.jinja")]
    code, grammar, _ = run(*words, "--tool-format", "qwen3_coder", "--tool-choice", "required")
    assert code == 0
    assert takes(grammar, "<tool_call>\n<function=ping>\n</function>\n</tool_call>")
    assert not takes(grammar, hermes_call("ping"))


def test_a_grammar_with_a_note(run: Run, tmp_path: Path):
    tools = write(
        tmp_path / "t.json", [tool("t", {"a": {"type": "string", "not": {"pattern": "()\\1ba"}}})]
    )
    code, out, err = run("grammar", "--tools", tools, "--format", "qwen3_coder")
    assert code == 0
    assert out.startswith("%llguidance")
    assert "note: tool 't': checked after generation: not at /properties/a" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "no wire format, chat template or model is given. Give --format"),
        ("--format json", "unknown format 'json' (at /format). Known: hermes"),
        ("--format hermes --tool-format hermes", "--format and --tool-format cannot be combined"),
        ("--format hermes -m MODEL", "--format cannot be combined with a model or template"),
        ("-m MODEL --markers token", "--markers has no effect with a model"),
        ("-m none.gguf", "none.gguf cannot be read"),
        ("--chat-template-file none", "--chat-template-file: No such file or directory: 'none'"),
        ("--format hermes --tool-choice x", "unknown tool 'x' (at /tool_choice)"),
        ("--format hermes --tools none", "--tools: No such file or directory: 'none'"),
    ],
)
def test_errors_of_grammar(run: Run, model: str, tools: str, arguments: str, message: str):
    words = [{"MODEL": model}.get(word, word) for word in arguments.split()]
    code, out, err = run("grammar", "--tools", tools, *words)
    assert (code, out) == (3 if "gguf" in arguments else 2, "")
    assert message in err
    assert message in json.loads(run("grammar", "--tools", tools, *words, "--json")[1])["error"]


def test_a_bad_variable_is_no_matter_where_it_is_not_read(
    run: Run, tools: str, monkeypatch: pytest.MonkeyPatch
):
    for name in ("THREADS", "CTX_SIZE", "N_GPU_LAYERS"):
        monkeypatch.setenv(f"LLAMA_ARG_{name}", "many")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    for words in (["check"], ["schema"], ["formats"]):
        assert run(*words)[0] == 0
    assert run("grammar", "--tools", tools, "--format", "hermes")[0] == 0
    code, _, err = run("call", "hi", "-m", "none")
    assert (code, err.count("many")) == (2, 1)


def test_formats(run: Run):
    code, out, err = run("formats", "--json")
    assert (code, err) == (0, "")
    listed = {format["name"]: format for format in json.loads(out)}
    assert list(listed) == [format.name for format in FORMATS]
    assert listed["hermes"]["markers"][:2] == ["<tool_call>", "</tool_call>"]
    assert listed["hermes"]["reasoning"] == ["<think>", "</think>"]
    for format in listed.values():
        single = find_named(format["name"], FORMATS).single
        assert "Paris" in format["one_call"]
        assert single == (format["two_calls"] is None)
        assert single or "Rome" in format["two_calls"]
    code, text, _ = run("formats")
    assert code == 0
    for format in listed.values():
        for line in (format["name"], *format["one_call"].split("\n"), *format["markers"]):
            assert line in text


def test_formats_detect(run: Run, model: str, tmp_path: Path):
    for source in (str(FOLDER / "hermes.jinja"), model, "demo"):
        code, out, err = run("formats", "detect", source)
        assert (code, err) == (0, "")
        lines = out.splitlines()
        assert lines[0] == "hermes: inferred"
        assert "  reasoning: <think> </think>" in lines
        assert '    {"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}' in lines
        assert any(line.startswith("    written alike: ") for line in lines)
        assert len(lines) < 40
        code, out, err = run("formats", "detect", source, "--verbose")
        assert (code, err) == (0, "")
        lines = out.splitlines()
        assert '    {"node": "Marker", "text": "<tool_call>"},' in lines
        assert '  "between": "\\n",' in lines
        assert any(line.startswith("one call: ") for line in lines)
    saved = tmp_path / "format.json"
    assert run("formats", "detect", model, "--save", str(saved))[0] == 0
    assert load_format(saved.read_text(encoding="utf-8")).name == "hermes"
    for words in (["--json", "detect", model], ["detect", model, "--json"]):
        found = json.loads(run("formats", *words)[1])
        assert (found["origin"], found["format"]["name"]) == ("inferred", "hermes")
        assert found["format"]["call"][0] == {"node": "Marker", "text": "<tool_call>"}
        assert found["evidence"][0]["probe"] == "content"


def test_formats_that_cannot_be_detected(run: Run, tmp_path: Path):
    bare = write_model(tmp_path / "bare.gguf", load_small(), None, n_layer=1)
    for source, message in [
        ("none", "No such file or directory: 'none'. Check the path"),
        (str(tmp_path), "Is a directory"),
        (str(bare), "has no chat template"),
    ]:
        code, out, err = run("formats", "detect", source, "--json")
        assert code == 2
        assert message in err
        assert message in json.loads(out)["error"]


def test_a_template_without_tools_gets_the_format_of_loading(run: Run, tmp_path: Path):
    source = write(tmp_path / "t.jinja", CHATML)
    code, out, err = run("formats", "detect", source, "--special-token", "<|im_end|>")
    assert (code, err) == (0, "")
    assert out.startswith("generic: generic\n")
    assert "hardly call under tool_choice auto: use required" in out


def test_schema(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    schema = {"properties": {"a": {"const": "é"}}}
    rows = [{"id": i, "schema": s, "tests": [{"data": {"b": 1}}]} for i, s in enumerate([schema])]
    data = ("\n".join(map(json.dumps, rows)) + "\n\nx\n").encode()
    path = write(tmp_path / "rows.jsonl", data)
    code, out, err = run("schema", path)
    assert code == 2
    assert err.startswith("constrained: error: line 3 is not JSON")
    first, second = map(json.loads, out.splitlines())
    assert (first["id"], first["compiles"]) == (0, True)
    assert first["results"] == [{"accepted": True, "delivered": True}]
    assert second["error"].startswith("line 3 is not JSON")
    closed = run("schema", path, "--closed")[1].splitlines()[0]
    (result,) = json.loads(closed)["results"]
    assert (result["accepted"], result["delivered"]) == (False, False)
    assert (result["refused_at"]["pointer"], result["refused_at"]["offset"]) == ("/b", 2)
    for words in (["schema"], ["schema", "-"], ["schema", "--json"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert run(*words) == (code, out, err)
    code, out, err = run("schema", "none")
    assert (code, out) == (2, "")
    assert "No such file or directory: 'none'. Check the path" in err


def test_what_the_model_recommends(run: Run, model: str, greedy: str):
    """A model that recommends to sample the most likely token needs no seed to repeat itself."""
    # Drafts depend on how long a decode takes; the reply counts them.
    words = ["call", "hi", "-n", "20", "--reasoning", "off", "--json", "--no-draft", "-m"]
    code, out, err = run(*words, greedy)
    assert code == 5  # 20 tokens are too few
    assert err == (
        "constrained: note: the model's general.sampling.top_p is left out: "
        "'much' is not a number\n"
    )
    assert out == run(*words, greedy)[1] == run(*words, model, "--temp", "0")[1]
    hot = [run(*words, greedy, "--temp", "5", "--seed", "1") for _ in "ab"]
    assert hot[0] == hot[1]
    assert hot[0][1] != out


def test_a_model_by_name(model: str, greedy: str, tmp_path: Path):
    """In a process of its own: huggingface_hub reads the environment when it is imported."""
    files = {"b-Q4_K_M.gguf": model, "b-Q8_0.gguf": greedy}
    hub = Hub({"a/b-GGUF": {name: Path(path).read_bytes() for name, path in files.items()}})
    names = ("LLAMA_ARG_", "HF_")
    plain = {k: v for k, v in os.environ.items() if not k.startswith(names)}
    plain |= {"HF_HOME": str(tmp_path), "LLAMA_ARG_THREADS": "1"}

    def call(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        command = [
            sys.executable,
            "-m",
            "constrained",
            "call",
            "hi",
            "-n",
            "3",
            "--temp",
            "0",
            "--top-p",
            "1",
        ]
        env = {**plain, **variables}
        return subprocess.run([*command, *words], cwd=ROOT, env=env, capture_output=True, text=True)

    with serve(hub):
        first = call("-hf", "a/b-GGUF:q8_0", HF_ENDPOINT=hub.url)
        assert (first.returncode, first.stderr.count("note: ")) == (5, 1)
        named = {"LLAMA_ARG_HF_REPO": "a/b-GGUF", "LLAMA_ARG_HF_FILE": "b-Q4_K_M.gguf"}
        assert call(**named, HF_ENDPOINT=hub.url).stdout == first.stdout
    assert [r for r in hub.requests if "/cdn/" in r] == [
        "GET /cdn/a/b-GGUF/b-Q8_0.gguf",
        "GET /cdn/a/b-GGUF/b-Q4_K_M.gguf",
    ]
    assert call("-hf", "a/b-GGUF", "--offline").stdout == first.stdout
    assert call(LLAMA_ARG_HF_REPO="a/b-GGUF", HF_HUB_OFFLINE="1").stdout == first.stdout
    assert call("-m", model, **named).stdout == first.stdout

    def manage(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "constrained", "models", *words]
        return subprocess.run(command, cwd=ROOT, env=plain, capture_output=True, text=True)

    lines = manage().stdout.splitlines()
    assert lines[1].startswith("demo  ")
    names = [line.split()[0] for line in lines if line.startswith("hf:")]
    assert names == ["hf:a/b-GGUF:Q4_K_M", "hf:a/b-GGUF:Q8_0"]
    for name in (names[1], "b-gguf:q8"):
        assert call("-m", name, HF_HUB_OFFLINE="1").stdout == first.stdout
    listed = {row["name"]: row["bytes"] for row in json.loads(manage("--json").stdout)}
    assert listed["hf:a/b-GGUF:Q8_0"] == Path(greedy).stat().st_size
    ambiguous = manage("rm", "a/b-GGUF")
    assert ambiguous.returncode == 2
    assert "Write one of a/b-GGUF:Q4_K_M, a/b-GGUF:Q8_0" in ambiguous.stderr
    assert manage("rm", names[0]).stdout.startswith("removed a/b-GGUF:Q4_K_M, ")
    with serve(hub):
        plain["HF_ENDPOINT"] = hub.url
        path = json.loads(manage("pull", "a/b-GGUF", "--json").stdout)["path"]
        assert Path(path).read_bytes() == Path(model).read_bytes()
        assert manage("pull", "a/b-GGUF:Q8_0").stdout.endswith("b-Q8_0.gguf\n")
    missing = call("-hf", "a/b-GGUF:Q2_K", LLAMA_ARG_OFFLINE="1")
    assert missing.returncode == 3
    assert "there is no Q2_K in the cache of a/b-GGUF" in missing.stderr
