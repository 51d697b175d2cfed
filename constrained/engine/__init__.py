"""Engines: they decode the tokens of several sequences and sample the next ones.

Needs `vocabulary`. Start with `protocol`, their interface. `llamacpp` runs GGUF models, `scripted`
needs no model.
"""

import os

# The threads of a decode wait for each other some hundred times. With GNU's OpenMP, a waiting
# thread spins 300,000 times, and keeps a core busy. If other programs need the cores, the thread
# that it waits for does not run meanwhile: beside eight busy processes, a decode of 16 tokens took
# 4.7 s, and takes 0.5 s now. On an idle machine, 2,000 times are as good. OpenMP reads this when
# llama.cpp is imported.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "2000")
