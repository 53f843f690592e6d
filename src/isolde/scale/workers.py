"""What runs jobs: several at once, each as often as it takes to get its result."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast

from isolde.errors import IsoldeError, MistakeError, UsageError

A = TypeVar("A")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a job gave, or the error that ended it."""

    result: Any
    error: IsoldeError | None = None


class Workers(Protocol):
    """Runs jobs at once. A job is a function of a module and one argument, both known to other processes by pickling.

    A job that loses its process, or the machine that it ran on, is run again: it must give the same whenever it runs.
    """

    @property
    def count(self) -> int:
        """How many jobs run at once."""
        ...

    def start(self, job: Callable[[Any], Any], argument: Any) -> int:
        """Starts a job and gives it a number."""
        ...

    def ended(self) -> tuple[int, Answer]:
        """Waits for any of those that were started and not asked for yet."""
        ...


def spread(
    workers: Workers,
    job: Callable[[A], R],
    arguments: Iterable[A],
    more: Callable[[A, R, int], Iterable[A]] = lambda _argument, _result, _idle: (),
) -> Iterator[tuple[A, R]]:
    """The jobs' results as they come. ``more`` is told how many workers have nothing to do, and gives further arguments."""
    waiting, running = deque(arguments), dict[int, A]()
    while waiting or running:
        while waiting and len(running) < workers.count:
            argument = waiting.popleft()
            running[workers.start(job, argument)] = argument
        number, answer = workers.ended()
        argument = running.pop(number)
        if answer.error is not None:
            raise answer.error
        result = cast(R, answer.result)
        waiting += more(argument, result, workers.count - len(running) - len(waiting))
        yield argument, result


def answered(job: Callable[[Any], Any], argument: Any, version: str) -> Answer:
    """Runs a job where it is to run. What goes wrong comes back as a value: not every error can be sent."""
    here = version_here()
    if version != here:
        text = f"a worker has Isolde {here}, and this is {version}; install the same version on every machine"
        return Answer(None, UsageError(text))
    try:
        return Answer(job(argument))
    except IsoldeError as error:
        return Answer(None, _sendable(error))
    except MemoryError:
        return Answer(None, IsoldeError("a worker ran out of memory; start fewer with --workers"))
    except Exception as error:
        return Answer(None, MistakeError(f"a job failed: {type(error).__name__}: {error}"))


def version_here() -> str:
    """Isolde's version in this process."""
    from importlib.metadata import version

    return version("isolde")


def _sendable(error: IsoldeError) -> IsoldeError:
    try:
        again = pickle.loads(pickle.dumps(error))
    except Exception:
        again = None
    same = type(again) is type(error) and str(again) == str(error)
    return error if same else UsageError(str(error))
