"""What agents are asked, and what the model is to say: read by their programs and by the server."""

GREETING = "Say hello to the reviewers."
GREETED = "Hello, reviewers."
FILE = "notes.txt"
CODE = "The code is 4711."
QUESTION = "Read the notes and tell me the code."
COMMAND = f"cat {FILE}"
