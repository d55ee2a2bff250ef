#!/usr/bin/env python3
"""pixelgait-order: orders to a run without ROS 2, over TCP on the loopback interface.

A line is an order, the line that answers it begins with `ok:` or `refused:`. What is no order ends
the connection: a web page can make a browser send lines of its own, but HTTP's come first.
"""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import tyro

from pixelgait.robot.cli.options import Range, parse
from pixelgait.robot.errors import UserError, run_command

if TYPE_CHECKING:  # an emergency stop does not wait for numerical libraries
    from pixelgait.robot.runtime.state_machine import Operator

HOST, PORT = "127.0.0.1", 7420  # the port is not registered with IANA
LONGEST = 100  # bytes of an order
ANSWER_S = 2.0
Port = Annotated[int, Range(1024, 65535)]


class OrderServer:
    """Serves an operator in threads of its own, until `close`.

    Raises:
        UserError: the port is in use.
    """

    def __init__(self, operator: Operator, port: int) -> None:
        orders = operator.orders("pixelgait-order")
        try:
            self._server = _Server((HOST, port), _handler(orders))
        except OSError as error:
            raise UserError(f"--orders {port}: {error.strerror}") from None
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="orders", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    block_on_close = False  # a client that stays connected does not keep the process


def _handler(
    orders: Mapping[str, Callable[[], tuple[bool, str]]],
) -> type[socketserver.StreamRequestHandler]:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while line := self.rfile.readline(LONGEST):
                order = orders.get(line.decode(errors="replace").strip())
                if order is None:
                    self._answer(False, f"no such order, choose from {', '.join(orders)}")
                    break
                self._answer(*order())

        def _answer(self, accepted: bool, answer: str) -> None:
            self.wfile.write(f"{'ok' if accepted else 'refused'}: {answer}\n".encode())

    return Handler


def send(order: str, port: int = PORT) -> str:
    """Send an order; returns the answer to one that was accepted.

    Raises:
        UserError: it was refused, or nothing answers.
    """
    try:
        with socket.create_connection((HOST, port), ANSWER_S) as connection:
            connection.sendall(f"{order}\n".encode())
            line = connection.makefile().readline().strip()
    except OSError as error:
        why = f"no pixelgait-run without ROS 2 answers on port {port}"
        raise UserError(f"{why} ({error.strerror or error})") from None
    accepted, _, answer = line.partition(": ")
    if accepted != "ok":
        raise UserError(answer or "the run has ended")
    return answer


@dataclass(frozen=True)
class OrderConfig:
    """Order a robot that pixelgait-run moves without ROS 2 (--camera), on this computer.

    emergency_stop damps at once, in every state; arm, stand_up, walk and lie_down are for one after
    the other. The answer is printed; a refusal is an error, with exit code 1. Programs may send the
    same lines over TCP themselves.
    """

    order: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ORDER")]
    """arm, stand_up, walk, lie_down, emergency_stop, reset_emergency_stop or disarm."""
    port: Port = PORT
    """The run's --orders."""


def main() -> None:
    """Console entry point."""
    run_command(lambda: run(parse(OrderConfig, "pixelgait-order")))


def run(config: OrderConfig) -> None:
    """Send the order and print the answer; see `send`."""
    print(send(config.order, config.port))


if __name__ == "__main__":
    main()
