"""Errors a user can mend, and the one place that turns them into one clear line."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable


class UserError(Exception):
    """Bad input: the message says what, where, and what was expected."""


def run_command(main: Callable[[], object]) -> None:
    """Run a command; what ends it early is one line on standard error.

    Exit code 1 for bad input, 130 for Ctrl-C: a KeyboardInterrupt may say what came of the work.
    Nothing is said to who has stopped reading.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal may not know every name
    try:
        try:
            main()
        finally:
            sys.stdout.flush()  # what fails here would fail in the interpreter's last breath
    except UserError as error:
        _end(str(error))
    except BrokenPipeError:
        _discard_output()
        sys.exit(1)
    except OSError as error:
        if error.filename is None:
            _discard_output()
        _end(": ".join(str(part) for part in (error.filename, error.strerror or error) if part))
    except MemoryError:
        _end("there is not enough memory for that")
    except (KeyboardInterrupt, ImportError) as stop:
        if not is_interrupt(stop):
            raise
        what = f", {stop}" if isinstance(stop, KeyboardInterrupt) and stop.args else ""
        print(f"error: interrupted{what}", file=sys.stderr)
        sys.exit(130)


def is_interrupt(error: BaseException) -> bool:
    """Whether Ctrl-C is behind it: a library in C that is being loaded says that it failed to."""
    cause = error.__cause__ or error.__context__
    return isinstance(error, KeyboardInterrupt) or (cause is not None and is_interrupt(cause))


def _end(message: str) -> None:
    """Raises SystemExit: one line, even if what the user named has several."""
    sys.exit(f"error: {message}".replace("\n", " "))


def _discard_output() -> None:
    """What is still to be written to a full or closed standard output would only fail again."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
