"""Which MCP tools the operator keeps from requests, since their calls would need an approval, for
which this server cannot ask."""

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from constrained.prompt.tools.functions import FunctionTool


class ForcedApproval(StrEnum):
    """Decides whose calls would need approval, by the operator's settings."""

    NONE = "none"
    WRITES = "writes"
    """Calls of tools without `readOnlyHint`."""
    ALL = "all"

    def applies_to(self, tool: "FunctionTool") -> bool:
        """Returns whether calls of this tool need approval."""
        return self is ForcedApproval.ALL or (self is ForcedApproval.WRITES and not tool.read_only)
