"""Agents as they were recorded: how many tokens each of their requests has, and each reply.

The conversations are those of `benchmarks.inputs.agent_trace` (a coding agent), of an agent that
works with the tools of GitHub, and of somebody who chats; the tokens are counted after the chat
template of Qwen3 with the vocabulary of Qwen2:

    python -m benchmarks.cluster.agents
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.forced import make_model
from benchmarks.inputs.agent_trace import QUESTION, make_result, make_system, make_tools
from constrained import Model, load
from constrained.job import Job

RECORDED = Path(__file__).with_name("agents.json")
GITHUB = Path(__file__).parents[2] / "tests" / "data" / "tools_github.jsonl"
MAX_CONTEXT = 32_768
Messages = list[dict[str, Any]]


@dataclass(frozen=True)
class RecordedAgent:
    """The requests of one conversation.

    Args:
        name: of the kind of agent.
        tools: tokens that tools take in front of the system message.
        head: tokens that all conversations with these tools and this system message begin with.
        prompts: tokens of each prompt.
        outputs: tokens of each reply.
        pause: seconds from a reply to the next request: a tool runs, or somebody reads (median).
        share: of all conversations.
    """

    name: str
    tools: int
    head: int
    prompts: tuple[int, ...]
    outputs: tuple[int, ...]
    pause: float
    share: float


def read_agents(path: Path = RECORDED) -> list[RecordedAgent]:
    """Returns the recorded agents."""
    rows = json.loads(path.read_text(encoding="utf-8"))
    return [
        RecordedAgent(**{**row, "prompts": tuple(row["prompts"]), "outputs": tuple(row["outputs"])})
        for row in rows
    ]


def record(path: Path = RECORDED) -> None:
    """Counts the tokens of the conversations anew, and writes them."""
    with TemporaryDirectory() as folder:
        model_path = make_model(Path(folder, "model.gguf"), "small", "Q8_0")
        with load(model_path, context_length=MAX_CONTEXT) as model:
            agents = [
                _measure(model, "coding", _code(12), make_tools(), pause=2.0, share=0.4),
                _measure(model, "github", _work_on_github(8), _read_github(), pause=2.0, share=0.3),
                _measure(model, "chat", _chat(5), [], pause=30.0, share=0.3),
            ]
    rows = [asdict(agent) for agent in agents]
    path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def _measure(
    model: Model, name: str, messages: Messages, tools: list[Any], *, pause: float, share: float
) -> RecordedAgent:
    prompts, outputs = list[int](), list[int]()
    head = tool_tokens = 0
    for number, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        turn = model.compile(Job(messages[:number], tools))
        answered = model.compile(Job([*messages[: number + 1], _ask("?")], tools))
        asked = model.compile(Job([*messages[:number], _ask("?")], tools))
        prompts.append(len(turn.tokens))
        outputs.append(max(1, len(answered.tokens) - len(asked.tokens)))
        head = turn.prompt.breakpoints.shared
        bare = model.compile(Job(messages[:number]))
        tool_tokens = len(turn.tokens) - len(bare.tokens)
    return RecordedAgent(name, tool_tokens, head, tuple(prompts), tuple(outputs), pause, share)


def _ask(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _call(number: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    call = {"id": f"call{number:05}", "type": "function", "function": function}
    return {"role": "assistant", "content": "", "tool_calls": [call]}


def _answer_call(number: int, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"call{number:05}", "content": text}


def _code(turns: int) -> Messages:
    system = "\n".join(block["text"] for block in make_system(0)[1:])
    messages: Messages = [{"role": "system", "content": system}, _ask(QUESTION)]
    for turn in range(turns):
        arguments = {"path": f"src/module_{turn}.py", "first_line": 1, "count": 40}
        messages.append(_call(turn, "read_file", arguments))
        messages.append(_answer_call(turn, make_result(turn)))
    return messages


def _read_github() -> list[Any]:
    tools = list[Any]()
    for line in GITHUB.read_text(encoding="utf-8").splitlines():
        tools += json.loads(line)["tools"]
    return tools


def _work_on_github(turns: int) -> Messages:
    system = "You look after the repositories of a team. Look before you write."
    messages: Messages = [
        {"role": "system", "content": system},
        _ask("Which of the open issues about the parser has nobody answered for a week?"),
    ]
    for turn in range(turns):
        arguments = {"owner": "team", "repo": f"project-{turn}", "state": "OPEN", "perPage": 20}
        messages.append(_call(turn, "list_issues", arguments))
        issues = [
            {"number": 100 * turn + n, "title": f"The parser fails on input {n}", "comments": n}
            for n in range(12)
        ]
        messages.append(_answer_call(turn, json.dumps(issues)))
    return messages


def _chat(turns: int) -> Messages:
    messages: Messages = [{"role": "system", "content": "You are a helpful assistant."}]
    for turn in range(turns):
        question = f"What would change in step {turn} if we had half of the time and one test more?"
        messages.append(_ask(question))
        answer = " ".join(f"Point {n}: do what matters first, and say why." for n in range(14))
        messages.append({"role": "assistant", "content": answer})
    return messages


def count_requests(agents: Sequence[RecordedAgent]) -> float:
    """Requests of a conversation, on average."""
    return sum(agent.share * len(agent.prompts) for agent in agents)


if __name__ == "__main__":
    record()
