"""The HTTP server: OpenAI's, Anthropic's and Ollama's dialects over `constrained`.

`commands.serve` starts it, `app` is the application. `dialects` read requests and write replies,
`turns` runs them, `http` is what all paths share. Start with `app`, then `dialects.chat`.
"""

PROJECT = "constrained-calls"
"""See `grammars.PROJECT`."""
