"""The commands that the server adds to the command line; entry points of the package.

A module for each command, with `add`, which declares its options. `serve` starts `server_process`;
`serve_options` has its options and makes the settings of the server from them. Start with `serve`.
`constrained cluster` is in `server.cluster.command`.
"""

from constrained.cli.commands import Command

SERVE = Command(
    "serve",
    "start an HTTP server with the APIs of OpenAI, Anthropic and Ollama",
    f"{__name__}.serve",
)
CLUSTER = Command(
    "cluster", "start several engines behind one server, with Ray Serve", "server.cluster.command"
)
