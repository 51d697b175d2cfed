"""Offline work: files of requests (Files and Batches of OpenAI), for the routes of all dialects.

Needs `http`, `turns`. Start with `batch_input`, the lines of a file; `line_runner` carries one out,
`batch_runner` all of a batch; `file_store` keeps files, `routes` has the paths.
"""
