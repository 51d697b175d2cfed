"""Fields that several dialects share, as pydantic models, and what the server reads from them.

`common_fields` has those of all dialects, `openai_fields` those of OpenAI's. `request_lists` has
types of lists whose validation ends with the first mistake. Needs `turns`.
"""
