"""Turns that are written and kept, and prompts that go on from them."""

from typing import Any

from constrained.model.compile.compiled_turn import CompiledTurn
from constrained.model.compile.compiler import Compiler
from constrained.prompt.job import Job
from tests.templates import HERMES, PAINT, PING

USER = {"role": "user", "content": "Paint it."}
RESULT = {"role": "tool", "tool_call_id": "callnr001", "content": "Done."}
WRITTEN = (
    "<think>\nHm.\n</think>\n\n<tool_call>\n"
    '{"name":"paint","arguments":{"color":"red"}}\n</tool_call>'
)
"""A turn as no template writes it: without spaces after colons."""
MARKERS = ("<think>", "</think>", "<tool_call>", "</tool_call>", "<|im_start|>", "<|im_end|>")
LAST = """{%- set last = namespace(user=-1) %}{%- for m in messages %}
{%- if m.role == 'user' %}{%- set last.user = loop.index0 %}{%- endif %}{%- endfor %}"""
THOUGHT = "{%- if message.reasoning_content"
DROPPING = LAST + HERMES.replace(THOUGHT, f"{THOUGHT} and loop.index0 > last.user")
"""A template that writes no reasoning of turns before the last message of the user."""


def call(name: str = "paint", arguments: Any = None, id: str = "callnr001") -> dict[str, Any]:
    function = {"name": name, "arguments": {"color": "red"} if arguments is None else arguments}
    return {"id": id, "type": "function", "function": function}


def said(thought: str = "Hm.", content: str = "", **options: Any) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": content}
    message["tool_calls"] = [call(**options)]
    return message | ({"reasoning_content": thought} if thought else {})


def start(compiler: Compiler, messages: list[Any] | None = None, **options: Any) -> CompiledTurn:
    return compiler.compile(Job(messages or [USER], [PING, PAINT], **options))


def write(compiler: Compiler, turn: CompiledTurn, text: str, message: dict[str, Any]) -> bytes:
    tokens = turn.vocabulary.encode_marked(text, turn.markers)
    compiler.keep(turn, tokens, message)
    return turn.vocabulary.text([*turn.tokens, *tokens])


def prompt_of(turn: CompiledTurn) -> bytes:
    return turn.vocabulary.text(turn.tokens)
