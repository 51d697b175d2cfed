"""A `llama_cpp.Llama` that is open already: its weights and context serve calls, too.

python -m examples.own_llama
"""

from typing import Any, Literal

from llama_cpp import Llama

from constrained import from_llama
from constrained.model_files import embedded


def set_light(room: Literal["kitchen", "hall"], on: bool) -> None:
    """Switches a light."""


def go_on(llama: Llama, text: str) -> str:
    """What the model writes behind a text, as Python spells it."""
    completion: Any = llama(text, max_tokens=4)
    return repr(completion["choices"][0]["text"])


def main() -> None:
    """Completes text, then lets the model make a call, then completes text again."""
    llama = Llama(str(embedded.PATH), n_ctx=2048, verbose=False)
    print("text", go_on(llama, "Once upon a time"))
    with from_llama(llama) as model:  # not to be used otherwise in here
        reply = model.call(
            "Light in the hall!",
            [set_light],
            tool_choice="required",
            parallel=False,
            max_tokens=200,
            reasoning_budget=16,
        )
    for call in reply.calls:
        print(call.name, call.arguments)
    print("text", go_on(llama, "Once upon a time"))
    llama.close()


if __name__ == "__main__":
    main()
