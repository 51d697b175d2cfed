"""The parsers of llama.cpp behind the pipe of `constrained suite`: its own server with the template
of a format, and a model that writes the texts.

    python -m benchmarks.field.llama_server llama.cpp:FORMAT [FOLDER_OF_XLLAMACPP]

The server does what it always does: its grammar begins with the call, and a text that the grammar
does not permit is an error here, since no model can write it. A token of the model is a tag, an
ASCII character, or a byte, so a stream has one of these at a time, however the text is cut.
"""

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx

from benchmarks.inputs.sources import read_source
from constrained.inspect.peers.pipe import answer_lines
from constrained.inspect.peers.stand_ins import THINKING, OpenPrompt, find_special
from examples.random_model.copying_model import CopyingModel
from grammars.wire.formats import FORMATS

DISTANCES = (512, 4096)
"""Tokens from a text in the prompt to its copy: most texts are short."""
_CONTEXT = 4096  # tokens of a prompt besides the text


class UnwritableError(Exception):
    """No model can write this text: the grammar does not permit it."""


class LlamaServer:
    """A server in this process.

    Args:
        template: the source of the chat template.
        special: texts that are one token.
        distance: tokens from a text in the prompt to its copy.
    """

    def __init__(self, template: str, special: Sequence[str], distance: int):
        import xllamacpp  # pyright: ignore[reportMissingImports]  in an environment of its own

        self._model = CopyingModel(special, distance)
        params = xllamacpp.CommonParams()
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
        params.n_ctx = 2 * distance + _CONTEXT
        params.n_parallel = 1
        params.use_jinja = True
        params.warmup = False
        params.verbosity = 0
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "copying.gguf")
            self._model.write(path, params.n_ctx, template)
            params.model.path = str(path)
            self._server: Any = xllamacpp.Server(params)
        body = self._write_body([], self._model.write_script("", 1))
        url = f"{self._server.listening_address}/apply-template"
        prompt = httpx.post(url, json=body, timeout=60).raise_for_status().json()["prompt"]
        self.opening = self._model.cut_after_script(prompt)
        """The end of the prompt, after the user's message."""
        self.room = distance - len(self._model.tokenize(self.opening))
        """The tokens that a text may have, with the one that ends it."""

    def count(self, text: str) -> int:
        """Returns the tokens of a text, with the one that ends it."""
        return len(self._model.tokenize(text)) + 1

    def complete(self, tools: list[Any], text: str) -> dict[str, Any]:
        """Returns the message that the server makes of a text.

        Raises:
            UnwritableError: the model cannot write it.
            RuntimeError: the server answers with an error.
        """
        body = self._write_body(tools, self._model.write_script(text, self.room))
        body |= {"max_tokens": self.count(text), "logprobs": True, "top_logprobs": 1}
        choice = _check(self._server.handle_chat_completions(body))["choices"][0]
        tokens = choice["logprobs"]["content"]
        written = b"".join(bytes(token["bytes"]) for token in tokens).decode(errors="replace")
        if written != text or choice["finish_reason"] == "length":
            raise UnwritableError
        return choice["message"]

    def stream(self, tools: list[Any], text: str) -> Iterator[dict[str, Any]]:
        """Yields the deltas that the server makes of a text."""
        body = self._write_body(tools, self._model.write_script(text, self.room))
        body |= {"max_tokens": self.count(text), "stream": True}
        chunks: list[Any] = []
        self._server.handle_chat_completions(body, chunks.append)
        for chunk in chunks:
            for choice in _check(chunk)["choices"]:
                yield choice["delta"]

    def _write_body(self, tools: list[Any], script: str) -> dict[str, Any]:
        user = {"role": "user", "content": script}
        body = {"messages": [user], "temperature": 0, "chat_template_kwargs": THINKING}
        return body | ({"tools": tools} if tools else {})


def _check(answer: dict[str, Any]) -> dict[str, Any]:
    if "choices" not in answer:
        error = answer.get("error", answer)
        raise RuntimeError(error.get("message", str(error)))
    return answer


class LlamaServerParser:
    """The parser that llama.cpp makes for a template.

    Args:
        name: the format whose template it is.
    """

    def __init__(self, name: str):
        self._template = read_source(name)
        self._reasoning = next(format.reasoning for format in FORMATS if format.name == name)
        self._special: Sequence[str] = ()
        self._servers: dict[int, LlamaServer] = {}
        self._prompt = OpenPrompt()
        self._known: dict[str, dict[str, Any] | UnwritableError] = {}

    def greet(self, markers: Sequence[str]) -> Sequence[str]:
        """Returns its abilities; `markers` become tokens."""
        self._special = find_special(markers)
        if self._reasoning is None:
            return ("stream", "content", "types")
        opener, closer = self._reasoning.opener.text, self._reasoning.closer.text
        if self._find_server("").opening.rstrip().endswith(opener):
            self._prompt = OpenPrompt(opener, closer)
        return ("stream", "content", "reasoning", "types")

    def read(self, tools: list[Any], text: str) -> dict[str, Any]:
        """Returns the answer for a whole text."""
        written = self._prompt.begin(text)
        message = self._complete(tools, written)
        return {
            "content": message.get("content") or "",
            "reasoning": message.get("reasoning_content") or "",
            "calls": [call["function"] for call in message.get("tool_calls") or ()],
        }

    def stream(self, tools: list[Any], chunks: list[str]) -> Iterator[dict[str, Any]]:
        """Yields the deltas for a text."""
        written = self._prompt.begin("".join(chunks))
        self._complete(tools, written)
        for delta in self._find_server(written).stream(tools, written):
            calls: list[dict[str, Any]] = []
            for call in delta.get("tool_calls") or ():
                calls.append({"index": call.get("index"), **call["function"]})
            yield {
                "content": delta.get("content"),
                "reasoning": delta.get("reasoning_content"),
                "calls": calls,
            }

    def _complete(self, tools: list[Any], written: str) -> dict[str, Any]:
        key = json.dumps([tools, written])
        if key not in self._known:
            try:
                self._known[key] = self._find_server(written).complete(tools, written)
            except UnwritableError as e:
                self._known[key] = e
        found = self._known[key]
        if isinstance(found, UnwritableError):
            raise found
        return found

    def _find_server(self, text: str) -> LlamaServer:
        for distance in DISTANCES:
            if distance not in self._servers:
                self._servers[distance] = LlamaServer(self._template, self._special, distance)
            server = self._servers[distance]
            if server.count(text) <= server.room:
                return server
        raise ValueError(f"a text of more than {DISTANCES[-1]} tokens")


def main() -> None:
    """Answers each line of stdin."""
    name, *packages = sys.argv[1:]
    sys.path[:0] = packages
    answer_lines(lambda: LlamaServerParser(name.partition(":")[2]))


if __name__ == "__main__":
    main()
