"""The model that comes with the package, for a first look: `load()` takes it where none is named.

How it is made, what it can do and what it cannot: examples/demo_model/MODEL_CARD.md.
"""

from pathlib import Path

PATH = Path(__file__).with_name("demo-Q8_0.gguf")
NOTICE = (
    "no model is given: using the demo model of the package (5 million parameters, for short tools "
    "in plain English), at temperature 0 unless another is set"
)
