"""A conversation as the chat template writes it, cut into what is read and what is learned."""

import json
from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import jinja2

from examples.demo_model.conversations import Conversation

TEMPLATE_FILE = Path(__file__).with_name("chat_template.jinja")
END = "<|im_end|>"


@lru_cache(maxsize=1)
def chat_template() -> str:
    """The chat template of the model."""
    return TEMPLATE_FILE.read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _compiled() -> jinja2.Template:
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, autoescape=False)
    environment.filters["tojson"] = partial(json.dumps, ensure_ascii=False)
    return environment.from_string(chat_template())


def render(
    messages: list[dict[str, Any]], tools: list[dict[str, Any]], *, thinking: bool, opened: bool
) -> str:
    """The text of messages; `opened`: with what invites the assistant to speak."""
    return _compiled().render(
        messages=messages,
        tools=tools,
        add_generation_prompt=opened,
        enable_thinking=thinking,
    )


def cut(conversation: Conversation) -> Iterator[tuple[str, bool]]:
    """The text in pieces, and whether the assistant has to learn to write each one.

    Raises:
        ValueError: the template does not continue its own prompts.
    """
    done, messages, tools = "", conversation.messages, conversation.tools
    thinking = conversation.thinking
    for number, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        prompt = render(messages[:number], tools, thinking=thinking, opened=True)
        whole = render(messages[: number + 1], tools, thinking=thinking, opened=False)
        if not (prompt.startswith(done) and whole.startswith(prompt)):
            raise ValueError("a prompt does not begin with the one before it")
        yield prompt[len(done) :], False
        yield whole[len(prompt) :].removesuffix("\n"), True
        done = whole.removesuffix("\n")
