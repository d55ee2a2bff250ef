#!/usr/bin/env python3
"""pixelgait-order: orders to a run without ROS 2, over TCP on the loopback interface.

A line is an order, the line that answers it begins with `ok:` or `refused:`. What is no order ends
the connection: a web page can make a browser send lines of its own, but HTTP's come first.
"""

from __future__ import annotations

import math
import socket
import socketserver
import threading
from collections.abc import Callable
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
GOAL, FARTHEST_M = "goal", 10_000.0
PORTS = Range(1024, 65535)
Port = Annotated[int, PORTS]


class OrderServer:
    """Serves an operator in threads of its own, until `close`.

    Raises:
        UserError: the port is in use.
    """

    def __init__(self, operator: Operator, port: int, to_goals: bool = False) -> None:
        orders = operator.orders("pixelgait-order")

        def order(line: str) -> Callable[[], tuple[bool, str]] | None:
            name, _, place = line.partition(" ")
            if name == GOAL and to_goals:
                return lambda: _go(operator, place)
            return orders.get(line)

        names = ", ".join((*orders, f"{GOAL} X Y") if to_goals else orders)
        try:
            self._server = _Server((HOST, port), _handler(order, names))
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


def _go(operator: Operator, place: str) -> tuple[bool, str]:
    """Send the robot to a place, its x and y [m] as text."""
    try:
        x, y = map(float, place.split())
    except ValueError:
        x = y = math.nan
    if not (abs(x) <= FARTHEST_M and abs(y) <= FARTHEST_M):
        return False, f"expected goal X Y [m], not goal {place}"
    return operator.go_to((x, y))


def _handler(
    find: Callable[[str], Callable[[], tuple[bool, str]] | None], names: str
) -> type[socketserver.StreamRequestHandler]:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while line := self.rfile.readline(LONGEST):
                order = find(line.decode(errors="replace").strip())
                if order is None:
                    self._answer(False, f"no such order, choose from {names}")
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

    order: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="ORDER")]
    """arm, stand_up, walk, lie_down, emergency_stop, reset_emergency_stop or disarm; goal X Y [m],
    ahead and to the left of where the run began, or cancel_goal."""
    port: Port = PORT
    """The run's --orders."""


def main() -> None:
    """Console entry point."""
    run_command(lambda: run(parse(OrderConfig, "pixelgait-order")))


def run(config: OrderConfig) -> None:
    """Send the order and print the answer; see `send`."""
    print(send(" ".join(config.order), config.port))


if __name__ == "__main__":
    main()
