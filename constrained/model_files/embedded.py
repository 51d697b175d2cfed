"""The demo model of the package, which `load()` loads by default.

examples/demo_model/MODEL_CARD.md describes how it is made, and what it can do.
"""

from pathlib import Path

from constrained.engine.probe import TRUSTED

PATH = Path(__file__).with_name("demo-Q8_0.gguf")
TRUSTED.add(PATH)
NOTICE = (
    "no model is named: using the included demo model (5 million parameters, for simple tools in "
    "plain English), at temperature 0 unless you set another"
)
