"""The public names of the package, and that it is light."""

import inspect
import subprocess
import sys
from collections.abc import Iterator
from enum import Enum
from importlib import resources
from typing import Any, get_args, get_overloads

import pytest

import constrained
from constrained.model.loaded_model import LoadedModel

HEAVY = {"llama_cpp", "llguidance", "pydantic", "jinja2", "numpy", "rich", "asyncio"}
HEAVY.add("constrained.agent.model")
LIST = f"""
import sys
{{}}
print(*[name for name in {sorted(HEAVY)} if name in sys.modules])
"""


def loaded_by(statements: str) -> list[str]:
    command = [sys.executable, "-c", LIST.format(statements)]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
    ).stdout.split()


def test_the_package_is_light():
    assert loaded_by("import constrained") == []
    assert "llama_cpp" not in loaded_by("from constrained import tool, Model, Sampling, load")
    assert (
        loaded_by("from constrained.cli.parser import make_parser, _find_commands as f; f()") == []
    )
    assert "llama_cpp" not in loaded_by("from constrained.cli.parser import main; main(['check'])")
    parse = (
        "from constrained.cli.parser import main\ntry: main(['--help'])\nexcept SystemExit: pass"
    )
    assert HEAVY.isdisjoint(loaded_by(parse))
    assert loaded_by("import server.cluster.command") == []  # its options, by each start


def test_public_names():
    from constrained import FunctionTool, Model, Sampling, from_llama, load, tool
    from constrained.agent import loading

    assert (load, from_llama) == (loading.load, loading.from_llama)
    assert constrained.Model is Model
    assert callable(tool)
    assert Sampling().seed is None
    assert FunctionTool("f", {}).name == "f"
    assert set(constrained.__all__) <= set(dir(constrained))
    with pytest.raises(AttributeError, match="'constrained' has no attribute 'nothing'"):
        _ = constrained.nothing
    with pytest.raises(ImportError):
        from constrained import nothing  # noqa: F401  its failure is the test


def test_errors_and_events_are_public() -> None:
    from constrained import errors
    from grammars import turn

    assert constrained.DeadlineError is errors.DeadlineError
    assert constrained.ContentDelta is turn.ContentDelta
    assert issubclass(constrained.DeadlineError, TimeoutError)
    late = constrained.DeadlineError("late", where="/x", hint="Wait")
    assert str(late) == "late (at /x). Wait"
    for name in set(constrained.__all__) - {"StreamEvent"}:  # an alias
        assert getattr(constrained, name).__name__ == name
    assert constrained.Exhausted in get_args(constrained.StreamEvent)


def test_names_stand_for_enumerations() -> None:
    """Type checkers know them by these literals, which are held to be the same ones."""
    from constrained.model import call_options
    from constrained.prompt.job import Recall
    from grammars.turn import KeyOrder

    for literal, enumeration in (
        (call_options.ThinkName, constrained.Think),
        (call_options.KeyOrderName, KeyOrder),
        (call_options.RecallName, Recall),
    ):
        assert list(get_args(literal)) == list(enumeration)


def test_help_leads_to_the_options() -> None:
    from constrained.model.call_options import Options

    model = constrained.Model
    for method in (model.call, model.stream, model.generate, model.run):
        assert "Options`" in (inspect.getdoc(method) or "")
    text = inspect.getdoc(Options)
    assert text
    for name in inspect.get_annotations(Options).keys() - vars(constrained.Sampling()).keys():
        assert f"\n    {name}: " in text
    fields = inspect.getdoc(constrained.Sampling)
    assert fields
    for name in vars(constrained.Sampling()):
        assert f"\n    {name}: " in fields


def find_public() -> Iterator[tuple[str, Any]]:
    """The functions and classes that users name, and the methods of these classes."""
    for name in constrained.__all__:
        entry = getattr(constrained, name)
        if inspect.isfunction(entry):
            yield name, entry
        if not inspect.isclass(entry):  # an alias
            continue
        yield name, entry
        for method in vars(entry).keys() - inspect.get_annotations(entry).keys():
            member = getattr(entry, method)
            if inspect.isroutine(member) and not method.startswith("_"):
                yield f"{name}.{method}", member


def test_help_describes_every_parameter() -> None:
    described = 0
    for name, entry in find_public():
        text = inspect.getdoc(entry)
        assert text, name
        if "Its arguments are described in `LoadedModel`." in text:
            text += inspect.getdoc(LoadedModel) or ""
        if inspect.isclass(entry) and issubclass(entry, (Exception, Enum)):
            continue
        if text.startswith("Like `"):  # the docstring of the other one
            continue
        for parameter in inspect.signature(entry).parameters:
            if parameter not in ("self", "start"):
                described += 1
                assert f"\n    {parameter}: " in text, f"{name}: {parameter}"
    assert described > 100


@pytest.mark.parametrize("package", ["constrained", "grammars", "server"])
def test_the_packages_say_that_they_are_typed(package: str):
    assert resources.files(package).joinpath("py.typed").is_file()


def test_generate_is_typed_alike_with_asyncio():
    """What the types are, pyright checks in `examples/structured.py`."""
    typed, typed_too = (
        [inspect.signature(overload) for overload in get_overloads(method)]
        for method in (constrained.Model.generate, constrained.Model.agenerate)
    )
    assert len(typed) == 3
    assert typed == typed_too


def test_documented_paths():
    """What README, changelog and examples have named is found where they say."""
    from constrained.model.reply import Reply
    from constrained.model_files import embedded
    from constrained.prompt.job import Job
    from constrained.prompt.tools import read_tools
    from grammars.infer import infer
    from grammars.parse import Parser, collect
    from grammars.parse.render import render
    from grammars.suite import Reading, assert_parser, find_failures
    from grammars.turn import ArgumentsDelta, ContentDelta, Policy, Tool, ToolCall, Turn
    from grammars.turn_grammar.turn import build_grammar
    from grammars.wire.format_text import dump_format, load_format
    from grammars.wire.formats import FORMATS, HERMES

    assert HERMES in FORMATS
    assert load_format(dump_format(HERMES)) == HERMES
    assert embedded.PATH.exists()
    functions = (read_tools, infer, build_grammar, collect, render, assert_parser, find_failures)
    assert all(map(callable, functions))
    classes = (Job, Reply, Parser, Reading, ArgumentsDelta, ContentDelta, Policy, Tool, ToolCall)
    assert all(isinstance(kind, type) for kind in (*classes, Turn))
