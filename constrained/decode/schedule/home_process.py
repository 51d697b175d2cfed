"""The process whose threads do the work of a model."""

import os

from constrained.errors import ModelError


class HomeProcess:
    """The process that this is made in.

    One that is forked from it has no threads but the one that has called fork: nobody would do the
    work.
    """

    def __init__(self) -> None:
        self._id = os.getpid()

    def check(self) -> None:
        """Refuses work in another process. Call it before taking a lock: a thread that is not here
        may hold it.

        Raises:
            ModelError: this is another process.
        """
        if os.getpid() != self._id:
            hint = "Load a model in each process, or start processes by multiprocessing's spawn"
            raise ModelError("the model was loaded before this process was forked", hint=hint)
