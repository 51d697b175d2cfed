"""A run that lasts: it has a record, a budget, and waits for approval before it changes something.

python -m examples.long_run
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from constrained import LATER, Budget, ToolCall, load, tool
from constrained.agent.journal import Verdict
from constrained.agent.runs.recorded_run import decide, list_waiting
from constrained.agent.runs.store import RunStore


@tool(read_only=True)
def get_weather(city: str) -> dict[str, object]:
    """The weather of today.

    Args:
        city: its English name
    """
    return {"city": city, "temperature": 21, "sky": "clear"}


@tool(cost=1)
def set_light(room: str, on: bool) -> str:
    """Switches a light.

    Args:
        room: where it is
        on: whether it is on then
    """
    return f"the light in the {room} is {'on' if on else 'off'}"


def approve(call: ToolCall) -> Verdict:
    """Reading is allowed; all else is decided later."""
    return call.name == "get_weather" or LATER


def main() -> None:
    """Begins a run that has to wait, decides, and goes on with it."""
    tools = [get_weather, set_light]
    with TemporaryDirectory() as folder, load() as model:
        record = Path(folder) / "runs.db"
        run = model.run(
            "Turn on the light in the kitchen.",
            tools,
            tool_choice={"type": "function", "function": {"name": "set_light"}},
            approve=approve,
            budget=Budget(calls=3, cost=2),
            record=record,
            max_steps=2,
            max_tokens=200,
        )
        print(f"ended: {run.reason}, waits: {run.pending}")
        with RunStore(record) as store:  # this may be another process, days later
            recorded = store.find(str(run.id))
            print(f"to decide: {[waiting.call for waiting in list_waiting(store, recorded)]}")
            decide(store, recorded, True)
        run = model.resume(record, str(run.id), tools, approve=approve)
    for made in run.calls:
        print(f"{made.call.name}({made.call.arguments}) -> {made.outcome}: {made.content}")
    print(f"ended: {run.reason} after {run.steps} turns, spent {run.spent.cost:g} of 2")


if __name__ == "__main__":
    main()
