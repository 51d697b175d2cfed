"""A process that does what it is asked to do; see `test_kept_process`."""

import os
import signal
import time
from typing import Any

from constrained.limits.answering import answer_questions
from constrained.limits.process_limits import MIB

_left: list[bytearray] = []


def answer(question: Any) -> Any:
    match question:
        case "memory":
            return len(bytearray(500 * MIB))
        case "time":
            while True:
                pass
        case "crash":
            return os.kill(os.getpid(), signal.SIGSEGV)
        case "much":
            return "a" * (65 * MIB)
        case "print":
            print("not an answer")
            return os.getpid()
        case "niceness":
            time.sleep(1.5)
            return [os.getpid(), os.nice(0)]
        case "wait":
            time.sleep(0.3)
            return os.getpid()
        case "leave":
            _left.append(bytearray(110 * MIB))
            return os.getpid()
        case _:
            return question


def main() -> None:
    answer_questions(answer, 200 * MIB)
