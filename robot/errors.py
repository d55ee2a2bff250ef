"""Errors a user can mend, and the one place that turns them into one clear line."""

from __future__ import annotations

import sys
from collections.abc import Callable


class UserError(Exception):
    """Bad input: the message says what, where, and what was expected."""


def run_command(main: Callable[[], object]) -> None:
    """Run a command; bad input ends it with one line on standard error and exit code 1."""
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
    except OSError as error:
        if error.filename is None:
            raise
        sys.exit(f"error: {error.filename}: {error.strerror}")
    except KeyboardInterrupt:
        sys.exit(130)
