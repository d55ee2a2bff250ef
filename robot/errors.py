"""User errors, and the entry point that prints them as one clear line."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable


class UserError(Exception):
    """Invalid input: the message says what, where, and what was expected."""


def run_command(main: Callable[[], object]) -> None:
    """Run a command; an error is printed as one line on standard error.

    Exit code 1 for invalid input, 130 for Ctrl-C; the message of a KeyboardInterrupt is printed. A
    closed output pipe ends the command without a message.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal may lack characters
    try:
        try:
            main()
        finally:
            sys.stdout.flush()  # a failure at interpreter exit would print a traceback
    except UserError as error:
        _end(str(error))
    except BrokenPipeError:
        discard_output()
        sys.exit(1)
    except OSError as error:
        if error.filename is None:
            discard_output()
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
    """Whether Ctrl-C is the cause: a C library interrupted while loading raises an ImportError."""
    cause = error.__cause__ or error.__context__
    return isinstance(error, KeyboardInterrupt) or (cause is not None and is_interrupt(cause))


def _end(message: str) -> None:
    """Raise SystemExit with the message as one line, even if a name in it has several."""
    sys.exit(f"error: {message}".replace("\n", " "))


def discard_output() -> None:
    """Discard what is still buffered for a full or closed standard output."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
