"""Answers the requests of `constrained suite` for a parser in Python: one JSON object a line.

python -m constrained.inspect.peers.pipe own MODULE:NAME
python -m constrained.inspect.peers.pipe PROJECT:PARSER[+REASONING] [PATH_OF_PACKAGES]
"""

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from constrained.inspect.peers.adapters import (
    LmdeployParser,
    QwenAgentParser,
    SglangParser,
    TransformersParser,
    VllmMlxParser,
    VllmParser,
    XinferenceParser,
)
from grammars.suite.own_parser import OwnParser, find_parser

OWN = "own"
PROJECTS = {
    "vllm": VllmParser,
    "sglang": SglangParser,
    "transformers": TransformersParser,
    "lmdeploy": LmdeployParser,
    "vllm-mlx": VllmMlxParser,
    "xinference": XinferenceParser,
    "qwen-agent": QwenAgentParser,
}
"""Projects, and the adapters of their parsers."""


class PeerParser(Protocol):
    """A parser in Python."""

    def greet(self, markers: Sequence[str], /) -> Sequence[str]:
        """Returns its abilities; `markers` are the tags of the format."""
        ...

    def read(self, tools: list[Any], text: str) -> dict[str, Any]:
        """Returns the answer for a whole text."""
        ...

    def stream(self, tools: list[Any], chunks: list[str]) -> Iterator[dict[str, Any]]:
        """Yields the deltas for chunks."""
        ...


def load_peer(name: str, packages: str | None = None) -> PeerParser:
    """Returns the parser of another project.

    Args:
        name: the project and the name of its parser, such as `vllm:hermes`.
        packages: the folder that the project is imported from; by default, where Python finds it.

    Raises:
        ImportError: the project is not there.
        LookupError: it is none of `PROJECTS`, or it has no such parser.
    """
    project, _, parser = name.partition(":")
    if project not in PROJECTS:
        raise LookupError(f"unknown project {project!r}; known: {', '.join(PROJECTS)}")
    if packages is not None:
        sys.path.insert(0, packages)
    return PROJECTS[project](parser)


def answer_request(parser: PeerParser, request: dict[str, Any]) -> dict[str, Any]:
    """Returns the answer to a request, without its id."""
    if "hello" in request:
        return {"can": list(parser.greet(request["hello"].get("markers", [])))}
    try:
        if "text" in request:
            return parser.read(request["tools"], request["text"])
        return {"deltas": list(parser.stream(request["tools"], request["chunks"]))}
    except Exception as e:  # what a server of that project would answer by an error
        return {"error": f"{type(e).__name__}: {e}"}


def answer_lines(load: Callable[[], PeerParser]) -> None:
    # What packages print belongs on stderr: stdout is for answers.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    parser = load()
    for line in sys.stdin:
        request = json.loads(line)
        answer = {"id": request["id"], **answer_request(parser, request)}
        print(json.dumps(answer, default=repr), file=out, flush=True)


def main() -> None:
    """Answers for the parser that the arguments name."""
    name, *rest = sys.argv[1:]
    if name == OWN:
        answer_lines(lambda: OwnParser(find_parser(rest[0])))
    else:
        logging.disable(logging.CRITICAL)
        answer_lines(lambda: load_peer(name, *rest))


if __name__ == "__main__":
    main()
