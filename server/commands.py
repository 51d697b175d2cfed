"""The commands of the command line that the server brings; the entry points of the package."""

from constrained.commands import Command

SERVE = Command(
    "serve", "start an HTTP server with the APIs of OpenAI, Anthropic and Ollama", "server.command"
)
BATCH = Command("batch", "carry out the requests of a batch file", "server.batch_command")
CLUSTER = Command(
    "cluster", "start several engines behind one server, with Ray Serve", "server.cluster.command"
)
