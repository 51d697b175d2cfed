"""A conversation in the form that coding agents send to /v1/messages, made up for measuring.

System text in blocks with `cache_control` (one of them changes with each request, as agents do it),
20 tools, and results of tools that look like files, listings and logs.
"""

from typing import Any

Json = dict[str, Any]
PINNED = {"cache_control": {"type": "ephemeral"}}
RULES = (
    "Read a file before you change it.",
    "Prefer the smallest change that solves the task, and keep to the style of the code around it.",
    "Run the tests of what was changed, and read their output to the end before going on.",
    "Never guess the name of a file: list the folder, or search for the name.",
    "When a command fails, say what it printed and what that means.",
    "Do not write secrets, tokens or passwords into files or commands.",
    "Tell the user in one sentence what was done when all of it is done.",
    "Paths are absolute, or relative to the folder of the project.",
)
# Name, what it does, and its parameters: name, type, whether it is required, what it is.
_TOOLS: Any = (
    (
        "read_file",
        "Read a text file, or a part of it by lines.",
        ("path", "string", True, "the file"),
        ("first_line", "integer", False, "counted from 1"),
        ("count", "integer", False, "how many lines"),
    ),
    (
        "write_file",
        "Write a whole file; what was there is replaced.",
        ("path", "string", True, "the file"),
        ("text", "string", True, "what it holds then"),
    ),
    (
        "edit_file",
        "Replace one text in a file by another.",
        ("path", "string", True, "the file"),
        ("old", "string", True, "stands in it exactly once"),
        ("new", "string", True, "comes in its place"),
    ),
    ("list_folder", "List what a folder holds.", ("path", "string", True, "the folder")),
    (
        "search_text",
        "Search files for a regular expression.",
        ("pattern", "string", True, "the expression"),
        ("path", "string", False, "where to look"),
        ("ignore_case", "boolean", False, "whether case matters not"),
    ),
    ("find_files", "Find files by name.", ("glob", "string", True, "such as **/*.py")),
    (
        "run_command",
        "Run a command in a shell.",
        ("command", "string", True, "the command line"),
        ("timeout", "integer", False, "seconds"),
    ),
    ("run_tests", "Run tests.", ("target", "string", False, "a file or folder of tests")),
    ("git_status", "Show which files differ from the last commit."),
    ("git_diff", "Show what differs.", ("path", "string", False, "one file only")),
    ("git_log", "Show the last commits.", ("count", "integer", False, "how many")),
    ("git_commit", "Commit all changes.", ("message", "string", True, "one line")),
    ("fetch_page", "Fetch a page as text.", ("url", "string", True, "its address")),
    ("search_web", "Search the web.", ("query", "string", True, "a few words")),
    (
        "add_task",
        "Add a task to the list of what is to be done.",
        ("title", "string", True, "what it is"),
        ("priority", "integer", False, "1 is first"),
    ),
    ("finish_task", "Mark a task as done.", ("number", "integer", True, "which one")),
    ("list_tasks", "Show the tasks."),
    ("ask_user", "Ask the user something.", ("question", "string", True, "one sentence")),
    ("read_image_text", "Read the text in an image.", ("path", "string", True, "the image")),
    ("show_outline", "Show classes and functions.", ("path", "string", True, "a source file")),
)


def make_tools() -> list[Json]:
    """Returns the tools, in the form of the dialect; the last one ends what is to be cached."""
    tools = [_make_tool(name, text, parameters) for name, text, *parameters in _TOOLS]
    tools[-1] |= PINNED
    return tools


def _make_tool(name: str, text: str, parameters: list[tuple[str, str, bool, str]]) -> Json:
    properties = {key: {"type": kind, "description": what} for key, kind, _, what in parameters}
    required = [key for key, _, is_required, _ in parameters if is_required]
    schema = {"type": "object", "properties": properties, "required": required}
    return {"name": name, "description": text, "input_schema": schema}


def make_system(request: int) -> list[Json]:
    """Returns the system text of a request; what changes with it is what agents let change."""
    billing = f"x-anthropic-billing-header: cc_version=2.1; cch={request:05x};"
    settings = (
        f"Settings: /home/user/.agent/claude-settings-{request:08x}-0000-4000-8000-{0:012}.json"
    )
    rules = "\n".join(f"{number}. {rule}" for number, rule in enumerate(RULES * 6, start=1))
    return [
        {"type": "text", "text": billing},
        {"type": "text", "text": f"You are a coding agent. Your rules:\n{rules}\n{settings}"}
        | PINNED,
    ]


def make_result(turn: int) -> str:
    """Returns what a tool says in a turn."""
    lines = [
        f"src/module_{turn}.py:{line}: def step_{turn}_{line}(state, count={line * turn}):"
        for line in range(1, 13)
    ]
    return "\n".join(lines)


QUESTION = "The tests of the parser fail since yesterday. Find out why, and mend it."
