"""The hooks of the parts of a turn fit together."""

from importlib import import_module
from pathlib import Path

import constrained.decode
from constrained.decode.turn_part import TurnPart


def list_parts() -> list[type[TurnPart]]:
    """All parts that there are, wherever they lie."""
    folder = Path(constrained.decode.__file__).parent
    for path in folder.rglob("*.py"):
        module = path.relative_to(folder).with_suffix("").parts
        if module[-1] != "__init__":
            import_module(".".join(["constrained.decode", *module]))
    return TurnPart.__subclasses__()


def test_a_part_that_forbids_says_where() -> None:
    parts = list_parts()
    assert len(parts) >= 6
    for part in parts:
        assert ("steer" in vars(part)) == ("forbids" in vars(part)), part
