"""Processes that benchmarks start: servers, and functions with a limit of time. Start with
`served`."""
