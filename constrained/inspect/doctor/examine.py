"""The list of all checks, in the order of the report."""

from constrained.inspect.doctor.checks.cache import check_cache
from constrained.inspect.doctor.checks.calls import check_calls
from constrained.inspect.doctor.checks.file import check_file, check_machine
from constrained.inspect.doctor.checks.reasoning import check_reasoning
from constrained.inspect.doctor.checks.template import check_template
from constrained.inspect.doctor.checks.tokens import check_tokens
from constrained.inspect.doctor.subject import Subject
from constrained.inspect.doctor.verdicts import Answer, Check, Diagnosis

CHECKS = (
    Check("file", "Is the file complete, and do its parts belong together?", check_file),
    Check("template", "Does the chat template write what it is given?", check_template),
    Check("calls", "In which format are tool calls, and is it safe?", check_calls),
    Check("reasoning", "How does the model reason, and what switches it?", check_reasoning),
    Check("cache", "Does each prompt begin with what the KV cache has?", check_cache),
    Check("tokens", "Does the vocabulary know what the template writes?", check_tokens),
    Check("machine", "What does it need, and does it fit here?", check_machine),
)


def examine(subject: Subject) -> Diagnosis:
    answers: list[Answer] = []
    for check in CHECKS:
        answer = check.run(subject)
        if answer.verdicts:
            answers.append(answer)
    return Diagnosis(subject.name, tuple(answers))
