"""Which calls of MCP tools wait for the approval of a client."""

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from constrained.tools.functions import FunctionTool


class ForcedApproval(StrEnum):
    """Which calls the operator has clients approve, whatever a request says."""

    NONE = "none"
    WRITES = "writes"
    """Of tools that do not say `readOnlyHint`."""
    ALL = "all"

    def holds_for(self, tool: "FunctionTool") -> bool:
        """True if calls of this tool wait for approval."""
        return self is ForcedApproval.ALL or (self is ForcedApproval.WRITES and not tool.read_only)
