# pyright: reportMissingImports=false
"""How often the network alone, always taking the likeliest token, answers exactly.

One pass over a question with its right answer is enough: it would write that answer if at each
place the likeliest token is the right one.
"""

import torch

from examples.demo_model.dialogue import END, render
from examples.demo_model.exam import Question
from examples.demo_model.feed import Encoder
from examples.demo_model.network import Network

ROWS = 16


@torch.no_grad()
def count_exact(network: Network, encoder: Encoder, questions: list[Question]) -> float:
    """The share of questions whose calls the network writes exactly; where no call is right, of
    those that it does not begin one for."""
    exact = 0
    encoded = sorted((_encode(q, encoder) for q in questions), key=lambda row: len(row[0]))
    for place in range(0, len(encoded), ROWS):
        rows = encoded[place : place + ROWS]
        batch = encoder.batch([(ids, [False] * len(ids)) for ids, _, _ in rows], len(rows[-1][0]))
        tokens = batch.tokens.to(network.embedding.device)
        best = network.logits(network.hidden(tokens, torch.bfloat16)).argmax(-1).cpu()
        for (ids, start, calls), row in zip(rows, best, strict=True):
            written = row[start - 1 : len(ids) - 1].tolist()
            exact += written == ids[start:] if calls else written[0] != encoder.call
    return exact / len(questions)


def _encode(question: Question, encoder: Encoder) -> tuple[list[int], int, bool]:
    """Prompt and answer, where the answer starts, and whether it is a call."""
    messages = question.messages
    prompt = render(messages, question.tools, thinking=False, opened=True)
    answer = question.message if question.calls else {"role": "assistant", "content": "?"}
    whole = render([*messages, answer], question.tools, thinking=False, opened=False)
    before = encoder.encode(prompt)
    after = encoder.encode(whole[len(prompt) :].removesuffix("\n"))
    assert whole.startswith(prompt)
    assert whole.endswith(f"{END}\n")
    return before + after, len(before), bool(question.calls)
