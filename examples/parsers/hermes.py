"""A parser of Hermes JSON behind a pipe. Try: constrained suite --cmd "python hermes.py" ..."""

import json
import re
import sys

CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)

for line in sys.stdin:
    request = json.loads(line)
    answer = {"id": request["id"]}
    if "hello" in request:
        answer["can"] = ["content"]
    else:
        answer["content"] = CALL.sub("", request["text"])
        answer["calls"] = [json.loads(call) for call in CALL.findall(request["text"])]
    print(json.dumps(answer), flush=True)
