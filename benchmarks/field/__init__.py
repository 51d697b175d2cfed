"""The parsers of other projects under `constrained suite`: a table, and all findings.

Start with `python -m benchmarks.field`.
"""
