"""Reliable tool calls from local, quantized models."""

# Nothing is imported here: the command line begins with this module, and the sooner it sees to
# Ctrl-C, the better. Type checkers know this name.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from constrained.agent.budget import Budget, Spent
    from constrained.agent.journal import LATER
    from constrained.agent.outcome import CallResult, Outcome, Reason, Run
    from constrained.decode.drafts.draft_options import DraftOptions
    from constrained.decode.filters.events import Exhausted, ProgressMade, StreamEvent
    from constrained.decode.request import Usage
    from constrained.embedding.embedding_model import EmbeddingModel, Embeddings, load_embeddings
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
    from constrained.isolation.isolated_call import Isolation
    from constrained.logits import TokenDrawn
    from constrained.mcp.connection import McpError
    from constrained.mcp.elicitation import Elicitation
    from constrained.mcp.results import McpResult
    from constrained.mcp.servers import McpServers, connect_mcp
    from constrained.model.loading import from_llama, load
    from constrained.model.model import Model
    from constrained.reply import Reply
    from constrained.schedule.streams import AsyncStream, Stream
    from constrained.tools.functions import FunctionTool, tool
    from constrained.tools.reports import ToolReport, report_tools
    from constrained.tools.search import ToolSearch
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
    "constrained.agent.outcome": ("CallResult", "Outcome", "Reason", "Run"),
    "constrained.decode.drafts.draft_options": ("DraftOptions",),
    "constrained.decode.filters.events": ("Exhausted", "ProgressMade", "StreamEvent"),
    "constrained.decode.request": ("Usage",),
    "constrained.embedding.embedding_model": ("EmbeddingModel", "Embeddings", "load_embeddings"),
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
    "constrained.logits": ("TokenDrawn",),
    "constrained.mcp.connection": ("McpError",),
    "constrained.mcp.elicitation": ("Elicitation",),
    "constrained.mcp.results": ("McpResult",),
    "constrained.mcp.servers": ("McpServers", "connect_mcp"),
    "constrained.model.loading": ("from_llama", "load"),
    "constrained.model.model": ("Model",),
    "constrained.reply": ("Reply",),
    "constrained.schedule.streams": ("AsyncStream", "Stream"),
    "constrained.tools.functions": ("FunctionTool", "tool"),
    "constrained.isolation.isolated_call": ("Isolation",),
    "constrained.tools.reports": ("ToolReport", "report_tools"),
    "constrained.tools.search": ("ToolSearch",),
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
    "DraftOptions",
    "Elicitation",
    "EmbeddingModel",
    "Embeddings",
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
    "load_embeddings",
    "report_tools",
    "tool",
]


if not TYPE_CHECKING:  # to a checker, a name that is not listed above is a mistake

    def __getattr__(name: str) -> object:
        """Imports the module of a public name at its first use, so that importing the package is
        fast."""
        from importlib import import_module

        if name == "__version__":
            return import_module("constrained.own_packages").read_version()
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import_module("constrained.own_packages")
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), "__version__", *__all__]
