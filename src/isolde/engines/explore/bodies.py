"""Running a transaction's body along a sequence of values read: what it does until the next read that nobody has answered.

Whatever a body does is a function of its arguments and the values that it has read. This is verified: every body is run
twice, and the two runs must do the same.
"""

from __future__ import annotations

import inspect
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, Protocol

from isolde.engines.explore.program import Call
from isolde.engines.explore.values import identity
from isolde.errors import IsoldeError, UsageError
from isolde.tx.python.handle import AbortedByProgram
from isolde.visible import visible

EVENTS_MAX = 100_000
"""Reads and writes of one transaction, so that an endless one ends."""
READS_MAX = 1_000
"""Reads of others' writes: after each of them the body runs again from its beginning."""
BODY_S = 20.0
"""Seconds that a body may compute between a read and the next."""


@dataclass(frozen=True, slots=True)
class Event:
    """A read of another transaction's write (or of the initial value), a read of an own write, or a write."""

    kind: Literal["read", "own", "write"]
    key: Any
    value: Any

    def __str__(self) -> str:
        verb = "write" if self.kind == "write" else "read"
        return visible(f"{verb} {shown_key(self.key)} = {shown(self.value)}")


@dataclass(frozen=True, slots=True)
class Failed:
    """A ``tx.check`` that failed, after how many reads of others' writes."""

    text: str
    reads: int


@dataclass(frozen=True, slots=True)
class Trace:
    """One run of a body. ``key`` is what it reads next, if it ends in a read that nobody has answered yet.

    ``statements``: of a body over tables, what each SQL statement gave.
    """

    events: tuple[Event, ...]
    end: Literal["read", "commit", "abort"]
    key: Any = None
    failed: tuple[Failed, ...] = ()
    reason: str = ""
    statements: tuple[Any, ...] = ()

    @property
    def written(self) -> dict[Any, Any]:
        """The last value of each key that it wrote, if it committed."""
        if self.end != "commit":
            return {}
        return {event.key: event.value for event in self.events if event.kind == "write"}

    def same(self, other: Trace) -> bool:
        """Whether a program could not tell the two runs apart."""
        return _marks(self) == _marks(other)


def _marks(trace: Trace) -> tuple[Any, ...]:
    events = tuple((event.kind, event.key, identity(event.value)) for event in trace.events)
    return events, trace.end, trace.key, trace.failed


def shown_key(key: Any) -> str:
    """A key as people write it; a row of a table as ``accounts[1]``."""
    return key if isinstance(key, str) else shown(key) if not hasattr(key, "shown") else str(key.shown())


def shown(value: Any) -> str:
    """The value as Python writes it; one that cannot be written (a number of 5,000 digits, say) by its type."""
    try:
        return repr(value)
    except Exception:
        return f"<{type(value).__name__}>"


class Unanswered(BaseException):
    """The body reads what nobody has answered yet. No ``except Exception`` of its own catches this."""


class Ended(BaseException):
    """The body gave up (``tx.abort``)."""


class _TooLong(BaseException):
    """The body computes for longer than it may."""


class Bodies(Protocol):
    """What runs the bodies of a program."""

    def run(self, call: Call, answers: Sequence[Any]) -> Trace:
        """The body along these answers to its reads of others' writes."""

    def initial(self, key: Any) -> Any:
        """What a key holds before the first transaction."""

    def state(self, written: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """The state that invariants are asked about, if these are the last versions of what was written."""


class Accesses:
    """The reads and writes of one run, in order."""

    def __init__(self, answers: Sequence[Any]) -> None:
        self._answers = answers
        self._own: dict[Any, Any] = {}
        self.events: list[Event] = []
        self.failed: list[Failed] = []
        self.reads = 0
        self.asked: tuple[Any, ...] = ()
        """The key that the run waits for, in a tuple of one."""
        self.given_up: tuple[str, ...] = ()
        """Why the body gave up, in a tuple of one; whatever it catches, it has given up."""
        self._caught = 0

    def read(self, key: Any) -> Any:
        self._go_on()
        if key in self._own:
            value = self._own[key]
            self.events.append(Event("own", key, value))
            return value
        if self.reads == len(self._answers):
            self.asked = (key,)
            raise Unanswered
        value = self._answers[self.reads]
        self.reads += 1
        self.events.append(Event("read", key, value))
        return value

    def write(self, key: Any, value: Any) -> None:
        self._go_on()
        self._own[key] = value
        self.events.append(Event("write", key, value))

    def note_failed(self, text: str) -> None:
        self._go_on()
        self.failed.append(Failed(text, self.reads))

    def give_up(self, reason: str) -> NoReturn:
        if not self.asked:
            self.given_up = self.given_up or (reason,)
        raise Ended(reason)

    def _go_on(self) -> None:
        if self.asked or self.given_up:
            # The body caught the first one with a bare except, and goes on with nothing.
            self._caught += 1
            if self._caught > _CAUGHT_MAX:
                _raise_outside_of_try()
            raise Unanswered if self.asked else Ended(self.given_up[0])
        if len(self.events) >= EVENTS_MAX or self.reads > READS_MAX:
            many = f"{READS_MAX:,} reads" if self.reads > READS_MAX else f"{EVENTS_MAX:,} reads and writes"
            raise UsageError(f"more than {many}; does it loop for ever?")

    def trace(self, end: Literal["commit", "abort"], reason: str = "", statements: Sequence[Any] = ()) -> Trace:
        if self.asked:
            return Trace(tuple(self.events), "read", self.asked[0], tuple(self.failed), statements=tuple(statements))
        if self.given_up:
            end, reason = "abort", self.given_up[0]
        return Trace(tuple(self.events), end, None, tuple(self.failed), reason, tuple(statements))


class KeyHandle:
    """What a body over keys is handed."""

    def __init__(self, accesses: Accesses) -> None:
        self._accesses = accesses

    def read(self, key: Any) -> Any:
        """The value of a key."""
        return self._accesses.read(_hashable(key, "key"))

    def write(self, key: Any, value: Any) -> None:
        """Sets the value of a key."""
        self._accesses.write(_hashable(key, "key"), _hashable(value, "value"))

    def abort(self, reason: str = "") -> NoReturn:
        """Ends the transaction without effect."""
        self._accesses.give_up(reason)

    def check(self, condition: object, text: str = "check") -> None:
        """Notes that the condition must hold here, whatever the other transactions do."""
        if not condition:
            self._accesses.note_failed(str(text))


def _hashable(thing: Any, what: str) -> Any:
    try:
        hash(thing)
    except TypeError:
        raise UsageError(f"the {what} {thing!r} is not hashable; use a tuple instead of a list") from None
    return thing


class KeyState(dict[Any, Any]):
    """A state of keys; one that nobody has written and that has no initial value is ``None``."""

    def __missing__(self, key: Any) -> None:
        return None


class KeyBodies:
    """Bodies over keys."""

    def __init__(self, initial: Any) -> None:
        self._initial = dict(initial)

    def initial(self, key: Any) -> Any:
        return self._initial.get(key)

    def state(self, written: Mapping[Any, Any]) -> Mapping[Any, Any]:
        return KeyState({**self._initial, **written})

    def run(self, call: Call, answers: Sequence[Any]) -> Trace:
        accesses = Accesses(answers)
        end, reason = ended(call, accesses, lambda: call.function(KeyHandle(accesses), *call.arguments))
        return accesses.trace(end, reason)


def ended(call: Call, accesses: Accesses, body: Callable[[], Any]) -> tuple[Literal["commit", "abort"], str]:
    """Runs a body; how it ended, and the reason if it gave up. A failed ``assert`` is a failed check that gives up."""
    try:
        with _watched():
            _refuse_unfinished(body())
    except Unanswered:
        return "commit", ""
    except (Ended, AbortedByProgram) as given_up:
        return "abort", str(getattr(given_up, "reason", given_up))
    except AssertionError as error:
        if not accesses.asked:
            accesses.note_failed(str(error) or "assert")
        return "abort", str(error)
    except _TooLong:
        raise UsageError(
            f"{call} computes for more than {BODY_S:g} s, or catches every exception and tries again; does it loop for ever?"
        ) from None
    except UsageError as error:
        raise UsageError(f"{call}: {error}") from None
    except IsoldeError:
        raise
    except (Exception, SystemExit) as error:
        if accesses.asked:
            return "commit", ""
        from isolde.workloads.blame import place_of

        text = " ".join(str(error).split())
        raise UsageError(
            f"{call} raises {type(error).__name__}{f': {text}' if text else ''}{place_of(error)}"
            "; give up with tx.abort() instead"
        ) from None
    return "commit", ""


def _refuse_unfinished(result: Any) -> None:
    """A generator or a coroutine has run nothing of its body yet."""
    if inspect.isgenerator(result) or inspect.isasyncgen(result) or inspect.iscoroutine(result):
        if inspect.iscoroutine(result):
            result.close()
        raise UsageError("it is a generator or a coroutine, of which nothing has run; write a plain function")


def twice(bodies: Bodies, call: Call, answers: Sequence[Any]) -> Trace:
    """Runs a body twice; one that does not do the same both times is refused with the two runs."""
    first, second = bodies.run(call, answers), bodies.run(call, answers)
    if not first.same(second):
        raise UsageError(not_deterministic(call, answers, described(first), described(second)))
    return first


def described(trace: Trace) -> str:
    """A run in one line."""
    end = f"read {shown_key(trace.key)}" if trace.end == "read" else trace.end
    failed = [f"fail the check {failed.text!r}" for failed in trace.failed]
    return visible(", ".join([*map(str, trace.events), *failed, end]))


def not_deterministic(call: Call, answers: Sequence[Any], first: str, second: str) -> str:
    read = f"after it read {', '.join(map(shown, answers))}, " if answers else ""
    return visible(
        f"{call} is not deterministic: {read}one run does ({first}) and another ({second});"
        " what a transaction does must depend on its arguments and on what it reads alone"
        " (no time, no randomness, no order of sets)"
    )


# Watching bodies

_inside = threading.local()
_OUTSIDE = ("open", "socket.", "subprocess.", "os.", "shutil.", "tempfile.", "ftplib.", "urllib.", "sqlite3.connect")
_HARMLESS = ("os.putenv", "os.unsetenv", "os.fwalk")
_CODE = (".py", ".pyc", ".so", ".pyd", ".dll")
_hooked = False
_CAUGHT_MAX = 1_000
"""How often a body may catch the exception that ends its run before it is ended by force."""


def _raise_outside_of_try() -> None:
    """Has the next line of the body raise: it lies in the handler that catches everything, which no ``except`` guards."""

    def at_a_line(_: Any, event: str, __: Any) -> Any:
        if event == "line":
            raise _TooLong
        return at_a_line

    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code is not ended.__code__:
        if frame.f_code.co_filename != __file__:
            frame.f_trace = at_a_line
        frame = frame.f_back
    sys.settrace(lambda *_: None)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if not getattr(_inside, "depth", 0) or not event.startswith(_OUTSIDE) or event in _HARMLESS:
        return
    if event == "open":
        path = arguments[0] if arguments else ""
        if not isinstance(path, str) or path.endswith(_CODE):
            # Imports inside of a body read files, and change nothing.
            return
        raise UsageError(f"it opens the file {path!r}; a transaction may only use what tx gives it")
    if event in {"os.listdir", "os.scandir"}:
        return
    raise UsageError(f"it reaches outside ({event}); a transaction may only use what tx gives it")


def _late(*_: object) -> NoReturn:
    raise _TooLong


@contextmanager
def _watched() -> Iterator[None]:
    """While a body runs: no files, no network, and an end to endless loops (where signals can be had)."""
    global _hooked
    if not _hooked:
        # A hook of Python's cannot be taken off again: outside of bodies it does nothing.
        sys.addaudithook(_audit)
        _hooked = True
    timed = threading.current_thread() is threading.main_thread() and hasattr(signal, "SIGALRM")
    before: Any = None
    if timed:
        before = signal.signal(signal.SIGALRM, _late)
        signal.setitimer(signal.ITIMER_REAL, BODY_S)
    _inside.depth = getattr(_inside, "depth", 0) + 1
    tracing = sys.gettrace()
    try:
        yield
    finally:
        sys.settrace(tracing)
        _inside.depth -= 1
        if timed:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
