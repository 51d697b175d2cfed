"""Which calls of MCP tools need the approval of the client."""

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from constrained.tools.functions import FunctionTool


class ForcedApproval(StrEnum):
    """Decides which calls need approval by the operator's settings, which no request can change."""

    NONE = "none"
    WRITES = "writes"
    """Calls of tools without `readOnlyHint`."""
    ALL = "all"

    def applies_to(self, tool: "FunctionTool") -> bool:
        """Returns whether calls of this tool need approval."""
        return self is ForcedApproval.ALL or (self is ForcedApproval.WRITES and not tool.read_only)
