"""Errors a user can mend, and the one place that turns them into one clear line."""

from __future__ import annotations

import sys
from collections.abc import Callable


class UserError(Exception):
    """Bad input: the message says what, where, and what was expected."""


def run_command(main: Callable[[], object]) -> None:
    """Run a command; what ends it early is one line on standard error.

    Exit code 1 for bad input, 130 for Ctrl-C: a KeyboardInterrupt may say what came of the work.
    """
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
    except OSError as error:
        if error.filename is None:
            raise
        sys.exit(f"error: {error.filename}: {error.strerror}")
    except KeyboardInterrupt as stop:
        print(f"error: interrupted{f', {stop}' if stop.args else ''}", file=sys.stderr)
        sys.exit(130)
