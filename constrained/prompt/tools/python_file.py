"""Tools of a Python file: its public functions."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from inspect import isfunction
from pathlib import Path

from constrained.limits.isolated_call import check_isolated
from constrained.prompt.tools.functions import FunctionTool, as_tool
from grammars.errors import ToolError


def load_functions(path: str) -> list[FunctionTool]:
    """Runs a Python file, which may import the files beside it, and returns its public functions as
    tools. ToolError: it fails, has none, or one that cannot be a tool."""
    file = Path(path)
    name = f"tools_of_{file.stem}"  # not a module that exists already, such as json
    spec = spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    sys.path.append(str(file.parent.absolute()))
    module = sys.modules[name] = module_from_spec(spec)  # types of its functions are found there
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        hint = "Run it alone, as a program, to see where"
        message = f"{path} cannot be run: {type(error).__name__}: {error}"
        raise ToolError(message, hint=hint) from error
    tools: list[FunctionTool] = []
    for key, value in vars(module).items():
        if isfunction(value) and value.__module__ == name and not key.startswith("_"):
            tool = as_tool(value)
            if tool.isolation is not None:
                check_isolated(value, tool.name)
            tools.append(tool)
    if not tools:
        raise ToolError(f"{path} has no public function", hint="Functions with `def` become tools")
    return tools
