"""A parser for the pipe of `constrained suite`, with a fault by name that shows at one word.

python faulty_parser.py FAULT
"""

import json
import sys
import time

WORD, OTHER_WORD = "woxam", "zorn"


def main(fault: str) -> None:
    for line in sys.stdin:
        request = json.loads(line)
        told = {"can": ["content"], "content": request.get("text")}
        if WORD in line:
            match fault:
                case "hangs":
                    time.sleep(60)
                case "dies" | "dies or says no":
                    sys.exit("no more of this")
                case "dies in Node.js":
                    sys.exit("at line 1\nSyntaxError: no more of this\n    at read\n\nNode.js v20")
                case "chatters":
                    print("reading ...", flush=True)
                case "another id":
                    request["id"] = 0
                case "another form":
                    told = {"calls": [{"name": 5}]}
                case "says no":
                    told = {"error": "not today"}
        elif OTHER_WORD in line and fault == "dies or says no":
            told = {"error": "not today"}
        print(json.dumps({"id": request["id"], **told}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
