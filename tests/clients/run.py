"""Real clients against the real server: `python -m tests.clients.run [CLIENT ...]` (`make
test-clients`).

Each client has a virtual environment of its own, made when it is first needed, and a script of
scenarios. The server is a process with the demo model, once with one sequence and once with eight;
both have to give the same. With `--backend` it draws no token itself: a real llama-server (extra
`remote`) or vLLM (`make .venv-vllm/.ready`) does, on the same model. One line of JSON for each
outcome; the exit code is 1 if one is not ok.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.processes.served import serve
from constrained.model_files import embedded
from constrained.remote.address import EngineKind
from tests.llama_server import run_llama_server
from tests.vllm.hugging_face import write_hugging_face
from tests.vllm.vllm_server import run_vllm

PROGRAMS = Path(__file__).parent / "programs"
ROOT = Path(__file__).parents[2]
VENVS = ROOT / ".venv-clients"
BACKENDS = (EngineKind.LLAMA_SERVER, EngineKind.VLLM)
LIMIT = 600  # seconds for all scenarios of a client
QUIET = {
    "OPENAI_API_KEY": "none",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "HAYSTACK_TELEMETRY_ENABLED": "False",
}
"""Clients ask nobody but the server."""


@dataclass(frozen=True)
class Client:
    """A client, and where its scenarios are.

    Args:
        packages: for pip, or for npm.
        options: of the server; clients that have the same ones share it.
        lacks: scenarios that it has no words for.
        is_agent: it is an agent, a program that a script in Python runs; its server has a scripted
            model.
    """

    name: str
    script: str
    packages: tuple[str, ...]
    options: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    is_agent: bool = False

    @property
    def home(self) -> Path:
        """The folder that its packages are in."""
        return VENVS / self.name

    @property
    def is_node(self) -> bool:
        """Its script is JavaScript."""
        return self.script.endswith(".mjs")

    @property
    def is_npm(self) -> bool:
        """Its packages are npm's, whose versions follow an `@`."""
        return all("@" in package for package in self.packages)

    def install(self) -> list[str]:
        """Installs it if need be; returns the command that runs its script."""
        done = self.home / ".done"
        wanted = "\n".join(self.packages)
        if not (done.exists() and done.read_text() == wanted):
            self.home.mkdir(parents=True, exist_ok=True)
            install = self._install_npm if self.is_npm else self._install_pip
            install()
            done.write_text(wanted)
        if self.is_node:
            return ["node", str(self.home / self.script)]
        if self.is_agent:
            return [sys.executable, str(PROGRAMS / self.script)]
        return [str(self.home / "bin" / "python"), str(PROGRAMS / self.script)]

    def _install_pip(self) -> None:
        venv.create(self.home, with_pip=True, clear=True)
        python = str(self.home / "bin" / "python")
        command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*command, *self.packages], check=True)

    def _install_npm(self) -> None:
        command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix"]
        subprocess.run([*command, str(self.home), *self.packages], check=True)


OF_SDKS = tuple(
    "auto required named none parallel stream reasoning_on reasoning_off error cancel".split()
)
"""Scenarios of SDKs: an agent asks as it likes."""
CLIENTS = (
    Client("openai", "openai_chat.py", ("openai>=3,<4",)),
    Client("openai-responses", "openai_responses.py", ("openai>=3,<4",)),
    Client("anthropic", "anthropic_messages.py", ("anthropic>=2,<3",)),
    Client("pydantic-ai", "pydantic_ai_agent.py", ("pydantic-ai-slim[openai]>=2,<3",)),
    Client("openai-agents", "openai_agents_run.py", ("openai-agents>=0.24,<1",)),
    Client("langchain-openai", "langchain_chat.py", ("langchain-openai>=1,<2",)),
    Client("langgraph", "langgraph_agent.py", ("langgraph>=1,<2", "langchain-openai>=1,<2")),
    Client("llama-index", "llama_index_agent.py", ("llama-index-llms-openai-like>=0.8,<1",)),
    Client("smolagents", "smolagents_agent.py", ("smolagents[openai]>=1.26,<2",)),
    Client(
        "instructor",
        "instructor_models.py",
        ("instructor>=1.17,<2",),
        lacks=("required", "none"),  # an instance is asked for by name, or left to the model
    ),
    # Requests with tools import mcp, which litellm (1.106.2) asks for in an extra alone:
    # its mistake.
    Client("litellm", "litellm_chat.py", ("litellm[mcp]>=1,<2",)),
    Client(
        "ollama",
        "ollama_chat.py",
        ("ollama>=0.6,<1",),
        lacks=("required", "named", "none"),  # there is no tool_choice
    ),
    Client("ai-sdk", "ai_sdk.mjs", ("ai@7", "@ai-sdk/openai-compatible@3", "zod@4")),
    Client("openai-node", "openai_node.mjs", ("openai@7", "zod@4")),
    Client("codex", "coding_agents.py", ("@openai/codex@0.169",), lacks=OF_SDKS, is_agent=True),
    Client(
        "claude-code",
        "coding_agents.py",
        ("@anthropic-ai/claude-code@2",),
        lacks=OF_SDKS,
        is_agent=True,
    ),
    Client("opencode", "coding_agents.py", ("opencode-ai@1",), lacks=OF_SDKS, is_agent=True),
    Client(
        "qwen-code",
        "coding_agents.py",
        ("@qwen-code/qwen-code@0",),
        lacks=OF_SDKS,
        is_agent=True,
    ),
    Client(
        "pi", "coding_agents.py", ("@mariozechner/pi-coding-agent@0",), lacks=OF_SDKS, is_agent=True
    ),
    Client("cline", "coding_agents.py", ("cline@3",), lacks=OF_SDKS, is_agent=True),
    Client("copilot", "coding_agents.py", ("@github/copilot@1",), lacks=OF_SDKS, is_agent=True),
    Client("continue", "coding_agents.py", ("@continuedev/cli@1",), lacks=OF_SDKS, is_agent=True),
    Client("gptme", "coding_agents.py", ("gptme>=0.35,<1",), lacks=OF_SDKS, is_agent=True),
    Client(
        "agent-framework",
        "agent_framework_run.py",
        (
            "agent-framework-core>=1,<2",
            "agent-framework-openai",
            "agent-framework-anthropic",
            "agent-framework-ollama",
        ),
        lacks=("auto", "named", "none", "parallel", "reasoning_on", "reasoning_off", "cancel"),
    ),
    Client(
        "langchain-dialects",
        "langchain_dialects.py",
        (
            "langchain>=1,<2",
            "langchain-openai>=1,<2",
            "langchain-anthropic>=1,<2",
            "langchain-ollama>=1,<2",
        ),
        lacks=("plain", "auto", "named", "none", "parallel", "reasoning_off", "cancel"),
    ),
    Client(
        "strands",
        "strands_agent.py",
        ("strands-agents[openai,anthropic,ollama]>=1.62,<2",),
        lacks=("auto", "required", "named", "none", "parallel", "reasoning_on", "reasoning_off"),
    ),
    Client(
        "ai-sdk-dialects",
        "ai_sdk_dialects.mjs",
        ("ai@7", "@ai-sdk/anthropic@3", "@ai-sdk/openai@3", "zod@4"),
        lacks=("auto", "required", "named", "none", "parallel", "reasoning_off"),
    ),
    Client(
        "haystack",
        "haystack_chat.py",
        ("haystack-ai>=3,<4",),
        lacks=("reasoning_on", "reasoning_off", "cancel"),
    ),
    Client(
        "autogen",
        "autogen_agent.py",
        ("autogen-agentchat>=0.7,<1", "autogen-ext[openai]>=0.7,<1"),
        lacks=("reasoning_on", "reasoning_off", "error", "cancel"),
    ),
    Client(
        "guidance",
        "guidance_chat.py",
        ("guidance>=0.3,<1", "openai>=2,<4"),
        # it takes no tools from a program, and no effort
        lacks=(
            "auto",
            "required",
            "named",
            "none",
            "parallel",
            "stream",
            "reasoning_on",
            "reasoning_off",
            "cancel",
        ),
    ),
    Client(
        "agno",
        "agno_agent.py",
        ("agno>=2,<4", "anthropic>=0.80", "openai>=2"),
        lacks=(
            "auto",
            "required",
            "named",
            "none",
            "parallel",
            "reasoning_on",
            "reasoning_off",
            "cancel",
        ),
    ),
    Client("anthropic-node", "anthropic_node.mjs", ("@anthropic-ai/sdk@1", "zod@4")),
    Client(
        "ollama-node",
        "ollama_node.mjs",
        ("ollama@0.6",),
        lacks=("required", "named", "none"),  # there is no tool_choice
    ),
    Client(
        "openai-agents-node",
        "openai_agents_node.mjs",
        ("@openai/agents@0.20", "openai@7", "zod@4"),
        lacks=("auto", "reasoning_off", "cancel"),
    ),
    Client(
        "langgraph-node",
        "langgraph_node.mjs",
        ("@langchain/langgraph@1", "@langchain/openai@1", "@langchain/core@1", "zod@4"),
        lacks=("reasoning_on", "reasoning_off"),  # an effort is only sent for OpenAI's models
    ),
    # Later versions need Node 22.
    Client(
        "mastra",
        "mastra_agent.mjs",
        ("@mastra/core@0.24", "zod@3"),
        lacks=("auto", "parallel", "reasoning_on", "reasoning_off", "cancel"),
    ),
    Client(
        "tanstack-ai",
        "tanstack_ai.mjs",
        ("@tanstack/ai@0.58", "@tanstack/ai-openai@0.23", "zod@4"),
        lacks=(
            "auto",
            "required",
            "named",
            "none",
            "parallel",
            "reasoning_on",
            "reasoning_off",
            "cancel",
        ),
    ),
    Client(
        "mirascope",
        "mirascope_calls.py",
        ("mirascope[openai,anthropic]>=2.8,<3",),
        lacks=("required", "named", "none", "reasoning_on", "reasoning_off", "cancel"),
    ),
    Client(
        "llm",
        "llm_cli.py",
        ("llm>=0.36,<1",),
        lacks=(
            "auto",
            "required",
            "named",
            "none",
            "parallel",
            "stream",
            "reasoning_on",
            "reasoning_off",
            "cancel",
        ),
    ),
    # Drawn requests may ask for any number of tokens: 504 is an answer, too.
    Client("schemathesis", "schema_fuzz.py", ("schemathesis>=4,<5",), ("--timeout", "1")),
)


def run_client(client: Client, url: str) -> list[dict[str, Any]]:
    """The outcomes of a client's scenarios."""
    command = client.install()
    if client.is_node:  # packages are looked for beside the script
        for script in PROGRAMS.glob("*.mjs"):
            shutil.copyfile(script, client.home / script.name)
    environment = os.environ | QUIET | {"CLIENT_HOME": str(client.home)}
    done = subprocess.run(
        [*command, url], env=environment, capture_output=True, text=True, timeout=LIMIT, check=False
    )
    printed = done.stdout.splitlines()  # clients log there, too
    lines = [json.loads(line) for line in printed if line.startswith('{"scenario"')]
    if done.returncode or not lines:
        error = done.stderr.strip()[-1000:]
        lines.append({"scenario": "script", "ok": False, "error": error})
    return lines


def run_clients(
    clients: Sequence[Client], sequences: int, engine: Sequence[str]
) -> dict[str, list[dict[str, Any]]]:
    """The outcomes of clients, one after the other, by their names; prints them as they come.

    Args:
        sequences: requests at a time.
        engine: options of the server that name its engine.
    """
    outcomes = dict[str, list[dict[str, Any]]]()
    for (options, is_agent), sharing in groupby(clients, attrgetter("options", "is_agent")):
        quiet = ["-np", str(sequences), "--log-level", "warning"]
        module = "tests.clients.scripted_server" if is_agent else "server"
        with serve([*quiet, *engine, *options], (module,)) as served:
            for client in sharing:
                outcomes[client.name] = run_client(client, served.url)
                for line in outcomes[client.name]:
                    shown = {"client": client.name, "np": sequences, **line}
                    print(json.dumps(shown), flush=True)
    return outcomes


@contextmanager
def run_engine(kind: str | None) -> Iterator[list[str]]:
    """Runs what draws the tokens of the demo model; gives the options with which a server uses it.

    Args:
        kind: one of `BACKENDS`; None: the server itself.
    """
    if kind == EngineKind.LLAMA_SERVER:
        with run_llama_server(embedded.PATH) as host:
            yield ["--backend", f"{kind}://{host}", "--alias", "demo"]
    elif kind == EngineKind.VLLM:
        with (
            TemporaryDirectory() as folder,
            run_vllm(write_hugging_face(embedded.PATH, Path(folder))) as host,
        ):
            # vLLM gives neither the template nor the bytes of tokens; the file has them.
            options = ["--tokenizer", str(embedded.PATH), "--alias", "demo"]
            yield ["--backend", f"{kind}://{host}", *options]
    else:
        yield ["-t", "1"]


def compare(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> list[str]:
    """The scenarios whose results differ, and those that one of the runs alone has."""
    results = [{line["scenario"]: line.get("result") for line in run} for run in (first, second)]
    names = dict.fromkeys([*results[0], *results[1]])
    missing = object()
    return [
        name for name in names if results[0].get(name, missing) != results[1].get(name, missing)
    ]


def main() -> int:
    """Runs the clients that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = [client.name for client in CLIENTS]
    parser.add_argument("clients", nargs="*", default=names, metavar="CLIENT")
    parser.add_argument("--parallel", type=int, nargs="+", default=[1, 8], metavar="NP")
    help = "what draws the tokens, in place of the server"
    parser.add_argument("--backend", choices=BACKENDS, help=help)
    options = parser.parse_args()
    chosen = [client for client in CLIENTS if client.name in options.clients]
    if options.backend:  # the scripted model of agents is one of this process
        chosen = [client for client in chosen if not client.is_agent]
    for client in chosen:
        client.install()
    outcomes: dict[int, dict[str, list[dict[str, Any]]]] = {}
    with run_engine(options.backend) as engine:
        for sequences in options.parallel:
            outcomes[sequences] = run_clients(chosen, sequences, engine)
    return judge(outcomes)


def judge(outcomes: dict[int, dict[str, list[dict[str, Any]]]]) -> int:
    """Prints what differs between the runs, and the counts; the exit code.

    Args:
        outcomes: of each number of sequences: the lines of each client.
    """
    first, *others = outcomes.values()
    failed = [line for run in outcomes.values() for lines in run.values() for line in lines]
    failed = [line for line in failed if not line["ok"]]
    differing = 0
    for other in others:
        for name, lines in first.items():
            for scenario in compare(lines, other[name]):
                differing += 1
                print(json.dumps({"client": name, "scenario": scenario, "differs": True}))
    count = sum(len(lines) for run in outcomes.values() for lines in run.values())
    print(json.dumps({"scenarios": count, "failed": len(failed), "differing": differing}))
    return 1 if failed or differing else 0


if __name__ == "__main__":
    sys.exit(main())
