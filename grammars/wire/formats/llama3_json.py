"""Llama 3 JSON: Llama 3.1, 3.2 and 3.3. No marker: a turn is text, or one JSON object.

Read from the template of Llama 3.1, which refuses a turn with two calls.
"""

from grammars.wire.format import Format, JsonCall

LLAMA3_JSON = Format(
    name="llama3_json",
    call=(JsonCall(arguments_key="parameters"),),
    ends=("<|eot_id|>",),
    single=True,
)

RANK = 4
