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
            "constrained.tools": "constrained.prompt.tools",
            "constrained.trace": "constrained.model.trace",
        }
    )

TYPE_CHECKING = False  # type checkers know this name

if TYPE_CHECKING:
    from constrained.agent.budget import Budget as Budget
    from constrained.agent.budget import Spent as Spent
    from constrained.agent.finished_run import Reason as Reason
    from constrained.agent.finished_run import Run as Run
    from constrained.agent.loading import from_llama as from_llama
    from constrained.agent.loading import load as load
    from constrained.agent.mcp.connection import McpError as McpError
    from constrained.agent.mcp.results import McpResult as McpResult
    from constrained.agent.mcp.servers import McpServers as McpServers
    from constrained.agent.mcp.servers import connect_mcp as connect_mcp
    from constrained.agent.model import Model as Model
    from constrained.agent.search.tool_search import ToolSearch as ToolSearch
    from constrained.decode.filters.events import Exhausted as Exhausted
    from constrained.decode.filters.events import ProgressMade as ProgressMade
    from constrained.decode.filters.events import StreamEvent as StreamEvent
    from constrained.decode.request import Usage as Usage
    from constrained.decode.schedule.streams import AsyncStream as AsyncStream
    from constrained.decode.schedule.streams import Stream as Stream
    from constrained.engine.protocol import Sampling as Sampling
    from constrained.errors import BusyError as BusyError
    from constrained.errors import ContextError as ContextError
    from constrained.errors import DeadlineError as DeadlineError
    from constrained.errors import GrammarError as GrammarError
    from constrained.errors import ModelError as ModelError
    from constrained.errors import ReplyError as ReplyError
    from constrained.errors import RequestError as RequestError
    from constrained.errors import TemplateError as TemplateError
    from constrained.limits.isolated_call import Isolation as Isolation
    from constrained.mask.logprobs import TokenDrawn as TokenDrawn
    from constrained.model.reply import Reply as Reply
    from constrained.prompt.tools.execution import CallResult as CallResult
    from constrained.prompt.tools.execution import Outcome as Outcome
    from constrained.prompt.tools.functions import FunctionTool as FunctionTool
    from constrained.prompt.tools.functions import tool as tool
    from constrained.prompt.tools.reports import ToolReport as ToolReport
    from constrained.prompt.tools.reports import report_tools as report_tools
    from grammars.errors import Error as Error
    from grammars.errors import SchemaError as SchemaError
    from grammars.errors import ToolError as ToolError
    from grammars.turn import ArgumentEnd as ArgumentEnd
    from grammars.turn import ArgumentsDelta as ArgumentsDelta
    from grammars.turn import ArgumentStart as ArgumentStart
    from grammars.turn import CallConfidence as CallConfidence
    from grammars.turn import CallCut as CallCut
    from grammars.turn import CallOpened as CallOpened
    from grammars.turn import CallRead as CallRead
    from grammars.turn import ContentDelta as ContentDelta
    from grammars.turn import ReasoningDelta as ReasoningDelta
    from grammars.turn import Think as Think
    from grammars.turn import ToolCall as ToolCall

    __version__: str

_NAMES = {
    "constrained.agent.budget": ("Budget", "Spent"),
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
    "constrained.agent.mcp.results": ("McpResult",),
    "constrained.agent.mcp.servers": ("McpServers", "connect_mcp"),
    "constrained.agent.loading": ("from_llama", "load"),
    "constrained.agent.model": ("Model",),
    "constrained.model.reply": ("Reply",),
    "constrained.decode.schedule.streams": ("AsyncStream", "Stream"),
    "constrained.prompt.tools.execution": ("CallResult", "Outcome"),
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

if not TYPE_CHECKING:  # to a checker, a name that is not listed above is a mistake
    __all__ = sorted(_HOMES)

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
    return [*globals(), "__version__", *_HOMES]
