# pyright: reportMissingImports=false
"""BFCL's own checker for `benchmarks.bfcl_judge`, in a virtual environment with bfcl-eval.

    python -m benchmarks.peer_processes.bfcl_peer < JUDGED.jsonl

A line has `functions` (as BFCL describes them), `calls`, `answers` (BFCL's alternatives) and
`category`; what comes back has `valid` and `error`, line by line.
"""

import json
import sys
from types import ModuleType, SimpleNamespace

MODELS = "bfcl_eval.constants.model_config"
NAME = "any"

# The real module imports the clients of twenty providers, for one flag: whether the model was
# given names with dots as names with underscores.
models = ModuleType(MODELS)
models.MODEL_CONFIG_MAPPING = {NAME: SimpleNamespace(underscore_to_dot=False)}  # pyright: ignore[reportAttributeAccessIssue]
sys.modules[MODELS] = models

from bfcl_eval.constants.enums import Language  # noqa: E402  after the stand-in above
from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker  # noqa: E402


def main() -> None:
    """Judges what stands on the standard input."""
    for line in sys.stdin:
        asked = json.loads(line)
        calls = [{call["name"]: call["arguments"]} for call in asked["calls"]]
        found = ast_checker(
            asked["functions"], calls, asked["answers"], Language.PYTHON, asked["category"], NAME
        )
        print(json.dumps({"valid": found["valid"], "error": str(found.get("error", ""))}))


if __name__ == "__main__":
    main()
