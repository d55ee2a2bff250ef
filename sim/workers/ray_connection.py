"""The way into a Ray cluster, and what bars it, at once: Ray itself would try for a long time."""

from __future__ import annotations

import logging
import socket
from importlib import import_module
from typing import Any

from pixelgait.robot.cli.processes import silence_stderr
from pixelgait.robot.errors import UserError

REACH_S = 5.0


def connect(address: str, folder: str | None) -> Any:
    """Ray, connected; every worker is in a copy of the folder.

    Raises:
        UserError: it is not installed, there is no such cluster, or it does not let us in.
    """
    try:
        import ray
        from ray._private.services import canonicalize_bootstrap_address_or_die
        from ray.exceptions import RayError
    except ModuleNotFoundError as error:
        need = f"--cluster needs {error.name}: in the checkout, pip install -e '.[cluster]'"
        raise UserError(need) from None
    try:
        head = canonicalize_bootstrap_address_or_die(address)
        host, _, port = head.rpartition(":")
        socket.create_connection((host, int(port)), REACH_S).close()  # Ray would try for minutes
    except (OSError, ValueError) as error:
        raise UserError(f"--cluster {address}: {error}") from None
    try:
        _knock(head)
        ray.init(
            address,
            runtime_env={"working_dir": folder} if folder else None,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (OSError, RuntimeError, ValueError, RayError) as error:
        why = str(error).splitlines()[0].split(". ")[0]  # and then how to make a token of its own
        need = "this machine must be part of the cluster, with its token and RAY_AUTH_MODE=token"
        raise UserError(f"--cluster {address}: {why}; {need}") from None
    return ray


def _knock(head: str) -> None:
    """Ask what nobody is told without the cluster's token: once, where Ray asks 20 times.

    Raises:
        RuntimeError, RayError: there is no token here, or another one.
    """
    from ray._private.authentication import authentication_token_setup

    # Without any, the client would abort this process.
    authentication_token_setup.ensure_token_if_auth_enabled(create_token_if_missing=False)
    with silence_stderr():  # what counts is raised as well
        import_module("ray._raylet").GcsClient(address=head)  # Ray's stubs do not know it
