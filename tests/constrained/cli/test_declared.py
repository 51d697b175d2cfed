"""How an option is declared: a field, and what the docstring of its dataclass says of it."""

import argparse
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

import pytest

from constrained.cli.declared import add_fields, complete, list_options, read_fields
from constrained.engine.options import EngineOptions, UnlessMinusOne, Within
from constrained.engine.sampling import Sampling
from constrained.errors import RequestError


@dataclass
class Oven:
    """An oven.

    Args:
        degrees: how hot it
            is (-d --degrees N $OVEN_DEGREES; advanced: heat). Cakes need less.
        size: room (--size KIB).
        fan: blow the air around (--no-fan).
        mode: what is hot (--mode).
        minutes: time; -1: any (--minutes N).
        colour: only the library has it.
    """

    degrees: Annotated[int, Within(0)] = 180
    size: Annotated[int, Within(1)] = 20 << 10
    fan: bool = True
    mode: Literal["top", "bottom"] = "top"
    minutes: UnlessMinusOne = None
    colour: str = "white"


def read(*words: str, keep_unset: bool = False) -> tuple[dict[str, Any], str]:
    """The fields that these words give, and the help."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_fields(parser, Oven, "oven", keep_unset=keep_unset)
    options = parser.parse_args(words)
    complete(options)
    return read_fields(Oven, options), parser.format_help()


def test_a_field_is_an_option_with_name_type_default_and_help():
    words = "-d 200 --size 3 --mode bottom --minutes 7".split()
    given = {"degrees": 200, "size": 3 << 10, "mode": "bottom", "minutes": 7}
    assert read(*words)[0].items() >= given.items()
    assert read("--minutes", "-1")[0]["minutes"] is None
    assert read("--no-fan", keep_unset=True)[0] == {"fan": False}
    _, help = read()
    found = " ".join(help.split())
    assert "advanced: heat: -d N, --degrees N how hot it is; default: 180 (OVEN_DEGREES)" in found
    assert "--size KIB room; default: 20" in found
    assert "--no-fan do not blow the air around" in found
    assert "colour" not in found
    with pytest.raises(argparse.ArgumentError, match="must be 1 or more, is 0"):
        read("--size", "0")


def test_a_variable_stands_in_for_an_option(monkeypatch: pytest.MonkeyPatch):
    assert read()[0]["degrees"] == 180
    assert read(keep_unset=True)[0] == {}
    monkeypatch.setenv("OVEN_DEGREES", "90")
    assert read()[0]["degrees"] == 90
    assert read("-d", "70")[0]["degrees"] == 70
    monkeypatch.setenv("OVEN_DEGREES", "hot")
    with pytest.raises(RequestError, match="OVEN_DEGREES is 'hot', not a number"):
        read()


def test_without_docstrings_there_is_an_error():
    @dataclass
    class Bare:
        degrees: int = 180

    with pytest.raises(RequestError, match="Run Python without -OO"):
        list_options(Bare)


@pytest.mark.parametrize("kind", [EngineOptions, Sampling])
def test_every_field_is_declared(kind: type[Any]):
    names = [field.name for field in fields(kind) if field.name != "logit_bias"]
    assert [*list_options(kind)] == names
