"""Measurements, and checks that are too long for the tests: one command per file. The head of each
file says what it measures and prints; `python -m benchmarks.NAME` runs it. The results are in
`docs/figures.md`.

- whether turns are valid, whatever the model wants: adversary, endings, totality;
- chat templates and formats: templates, faithful, replay;
- schemas: schemas, exact, patterns;
- real weights: side_by_side;
- time and memory: compiling;
- the server under attack: siege, fuzz;
- the size of the code and the docs: shape.

The parsers of other projects are checked by a folder, `python -m benchmarks.field`. What several of
the others need is in the other folders.
"""
