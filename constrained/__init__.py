"""Reliable tool calls from local, quantized models."""

# Nothing else is imported here: the command line begins with this module, and the sooner it sees
# to Ctrl-C, the better.
try:
    from grammars import keep_old_paths
except ImportError:  # another package of this name; `errors.own_packages` says so
    pass
else:
    keep_old_paths(
        {
            "constrained.embedded": "constrained.model_files.embedded",
            "constrained.job": "constrained.prompt.job",
            "constrained.mcp": "constrained.agent.mcp",
            "constrained.reply": "constrained.model.reply",
            "constrained.runs": "constrained.agent.runs",
            "constrained.tools": "constrained.prompt.tools",
            "constrained.trace": "constrained.model.trace",
        }
    )

TYPE_CHECKING = False  # type checkers know this name

if TYPE_CHECKING:
    from constrained.agent.budget import Budget, Spent
    from constrained.agent.finished_run import Reason, Run
    from constrained.agent.journal import LATER
    from constrained.agent.loading import from_llama, load
    from constrained.agent.mcp.connection import McpError
    from constrained.agent.mcp.elicitation import Elicitation
    from constrained.agent.mcp.results import McpResult
    from constrained.agent.mcp.servers import McpServers, connect_mcp
    from constrained.agent.model import Model
    from constrained.agent.search.tool_search import ToolSearch
    from constrained.decode.filters.events import Exhausted, ProgressMade, StreamEvent
    from constrained.decode.request import Usage
    from constrained.decode.schedule.streams import AsyncStream, Stream
    from constrained.engine.protocol import Sampling
    from constrained.errors import (
        BusyError,
        ContextError,
        DeadlineError,
        GrammarError,
        ModelError,
        ReplyError,
        RequestError,
        TemplateError,
    )
    from constrained.limits.isolated_call import Isolation
    from constrained.mask.logprobs import TokenDrawn
    from constrained.model.reply import Reply
    from constrained.prompt.tools.call_result import CallResult, Outcome
    from constrained.prompt.tools.functions import FunctionTool, tool
    from constrained.prompt.tools.reports import ToolReport, report_tools
    from grammars.errors import Error, SchemaError, ToolError
    from grammars.turn import (
        ArgumentEnd,
        ArgumentsDelta,
        ArgumentStart,
        CallConfidence,
        CallCut,
        CallOpened,
        CallRead,
        ContentDelta,
        ReasoningDelta,
        Think,
        ToolCall,
    )

    __version__: str

_NAMES = {
    "constrained.agent.budget": ("Budget", "Spent"),
    "constrained.agent.journal": ("LATER",),
    "constrained.agent.finished_run": ("Reason", "Run"),
    "constrained.decode.filters.events": ("Exhausted", "ProgressMade", "StreamEvent"),
    "constrained.decode.request": ("Usage",),
    "constrained.engine.protocol": ("Sampling",),
    "constrained.errors": (
        "BusyError",
        "ContextError",
        "DeadlineError",
        "GrammarError",
        "ModelError",
        "ReplyError",
        "RequestError",
        "TemplateError",
    ),
    "constrained.mask.logprobs": ("TokenDrawn",),
    "constrained.agent.mcp.connection": ("McpError",),
    "constrained.agent.mcp.elicitation": ("Elicitation",),
    "constrained.agent.mcp.results": ("McpResult",),
    "constrained.agent.mcp.servers": ("McpServers", "connect_mcp"),
    "constrained.agent.loading": ("from_llama", "load"),
    "constrained.agent.model": ("Model",),
    "constrained.model.reply": ("Reply",),
    "constrained.decode.schedule.streams": ("AsyncStream", "Stream"),
    "constrained.prompt.tools.call_result": ("CallResult", "Outcome"),
    "constrained.prompt.tools.functions": ("FunctionTool", "tool"),
    "constrained.limits.isolated_call": ("Isolation",),
    "constrained.prompt.tools.reports": ("ToolReport", "report_tools"),
    "constrained.agent.search.tool_search": ("ToolSearch",),
    "grammars.errors": ("Error", "SchemaError", "ToolError"),
    "grammars.turn": (
        "ArgumentEnd",
        "ArgumentStart",
        "ArgumentsDelta",
        "CallConfidence",
        "CallCut",
        "CallOpened",
        "CallRead",
        "ContentDelta",
        "ReasoningDelta",
        "Think",
        "ToolCall",
    ),
}
"""The public names by the module that has them."""

_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "LATER",
    "ArgumentEnd",
    "ArgumentStart",
    "ArgumentsDelta",
    "AsyncStream",
    "Budget",
    "BusyError",
    "CallConfidence",
    "CallCut",
    "CallOpened",
    "CallRead",
    "CallResult",
    "ContentDelta",
    "ContextError",
    "DeadlineError",
    "Elicitation",
    "Error",
    "Exhausted",
    "FunctionTool",
    "GrammarError",
    "Isolation",
    "McpError",
    "McpResult",
    "McpServers",
    "Model",
    "ModelError",
    "Outcome",
    "ProgressMade",
    "Reason",
    "ReasoningDelta",
    "Reply",
    "ReplyError",
    "RequestError",
    "Run",
    "Sampling",
    "SchemaError",
    "Spent",
    "Stream",
    "StreamEvent",
    "TemplateError",
    "Think",
    "TokenDrawn",
    "ToolCall",
    "ToolError",
    "ToolReport",
    "ToolSearch",
    "Usage",
    "connect_mcp",
    "from_llama",
    "load",
    "report_tools",
    "tool",
]


if not TYPE_CHECKING:  # to a checker, a name that is not listed above is a mistake

    def __getattr__(name: str) -> object:
        """Imports the module of a public name at its first use, so that importing the package is
        fast."""
        from importlib import import_module

        if name == "__version__":
            return import_module("constrained.errors.own_packages").read_version()
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import_module("constrained.errors.own_packages")
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), "__version__", *__all__]
