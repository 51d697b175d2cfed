"""The names of tools: each stands for one."""

from collections.abc import Sequence

from grammars.errors import ToolError


def check_names(names: Sequence[str]) -> None:
    """Refuses two tools of one name.

    Raises:
        ToolError: `where` is the second one.
    """
    for i, name in enumerate(names):
        if name in names[:i]:
            hint = "Rename one of them"
            raise ToolError(f"two tools are called {name!r}", where=f"/tools/{i}", hint=hint)
