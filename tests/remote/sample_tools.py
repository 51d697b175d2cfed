"""Tools whose arguments are nested and bounded."""

from typing import Any

from tests.constrained.remote.replies import WEATHER

TOOLS: list[dict[str, Any]] = [
    WEATHER,
    {
        "name": "plan",
        "description": "Plan days",
        "parameters": {
            "type": "object",
            "properties": {
                "days": {
                    "type": "array",
                    "maxItems": 3,
                    "items": {
                        "type": "object",
                        "properties": {
                            "date": {"type": "string", "format": "date"},
                            "hours": {"type": "integer", "minimum": 0, "maximum": 24},
                            "note": {"type": "string", "maxLength": 12},
                        },
                        "required": ["date", "hours", "note"],
                    },
                },
                "ratio": {"type": "number", "minimum": 0, "maximum": 1},
            },
            "required": ["days"],
        },
    },
]
