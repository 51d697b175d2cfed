"""Several requests from asyncio: they queue for the model, and the loop goes on meanwhile.

python -m examples.concurrent [-m MODEL.gguf]
"""

import asyncio
from typing import Literal

from examples.model_file import model_file

from constrained import Model, load


async def get_time(city: Literal["Paris", "Rome", "Tokyo"]) -> str:
    """What time it is."""
    await asyncio.sleep(0.1)  # a request to somewhere, say
    return f"{city}: 09:30"


async def ask(model: Model, city: str) -> str:
    """Lets the model call the function once, and returns what came of it."""
    run = await model.arun(
        f"What time is it in {city}?",
        [get_time],
        tool_choice="required",
        parallel=False,
        max_steps=1,
        max_tokens=200,
        reasoning_budget=16,
    )
    return f"{city}? {[made.content for made in run.calls]} ({run.reason})"


async def answer(path: str) -> None:
    """Asks about three cities at once."""
    with load(path) as model:
        for line in await asyncio.gather(*(ask(model, c) for c in ("Paris", "Rome", "Tokyo"))):
            print(line)


def main() -> None:
    """Runs the loop."""
    with model_file(__doc__) as path:
        asyncio.run(answer(str(path)))


if __name__ == "__main__":
    main()
