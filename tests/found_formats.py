"""The format that is found of a template, given what renders it. That there is none is raised
here, so that tests can match the message."""

from collections.abc import Sequence
from typing import TypeVar

from grammars.errors import DetectError
from grammars.infer import find, inference, shown
from grammars.infer.detection import Detection, NoFormat
from grammars.infer.find import find_format
from grammars.infer.probes import Render
from grammars.infer.reasoning import probe
from grammars.wire.format import Format, Reasoning
from grammars.wire.formats import NATIVE

T = TypeVar("T")


def read(found: T | NoFormat) -> T:
    if isinstance(found, NoFormat):
        raise DetectError(found.message)
    return found


def detect(render: Render) -> Detection:
    return read(find_format(probe(render)))


def infer(render: Render) -> Detection:
    return read(inference.infer(probe(render)))


def find_stated(render: Render) -> Detection:
    return read(shown.find_stated(probe(render)))


def find_registered(render: Render, formats: Sequence[Format] = NATIVE) -> Format:
    return find.find_registered(probe(render), formats)


def find_reasoning(render: Render) -> Reasoning | None:
    return probe(render).reasoning
