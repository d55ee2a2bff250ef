"""From a folder to a bundle that has been verified."""

from __future__ import annotations

from pathlib import Path

from pixelgait.robot.bundle.bundle import Bundle
from pixelgait.robot.bundle.contract import check_agreement, check_integrity
from pixelgait.robot.bundle.folder import CONTRACT, BundleError, find_bundle
from pixelgait.robot.bundle.graphs import check_golden, check_tensors, open_graphs
from pixelgait.robot.errors import UserError
from pixelgait.robot.files import read_json
from pixelgait.robot.spec import RobotSpec, find_robot


def load_bundle(name: str | Path, spec: RobotSpec | None = None) -> Bundle:
    """Read and verify a bundle: a folder, or the name of a shipped one.

    It shall run on the robot `spec`, by default the one that the contract names.

    Raises:
        BundleError: anything in the folder that does not fit, by name.
    """
    folder = find_bundle(str(name))
    try:
        return _load(folder, spec)
    except BundleError:
        raise
    except UserError as error:  # of what the contract says
        raise BundleError(f"{folder / CONTRACT}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise BundleError(f"{folder / CONTRACT}: malformed ({error!r})") from None


def _load(folder: Path, spec: RobotSpec | None) -> Bundle:
    contract = read_json(folder / CONTRACT, BundleError)
    check_integrity(folder, contract)
    spec = spec or find_robot(contract["robot"])
    if contract["robot"] != spec.name:
        raise UserError(f"made for robot '{contract['robot']}', not for '{spec.name}'")
    graphs = open_graphs(folder)
    bundle = Bundle(folder, contract, spec, graphs)
    check_agreement(contract, spec, bundle.image_shape)
    check_tensors(contract["graphs"], graphs, bundle.image_shape)
    check_golden(folder, contract["graphs"], graphs)
    return bundle
