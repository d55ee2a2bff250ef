"""Console scripts: run a command's module, or name the extra that it needs."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from pixelgait.robot.cli.provenance import version
from pixelgait.robot.errors import is_interrupt

# Command: (module with its `main`, extra that installs what it imports).
# Modules are named, not imported: this folder must run where the others' libraries are missing.
COMMANDS = {
    "pixelgait-train": ("pixelgait.policies.training.train", "train"),
    "pixelgait-eval": ("pixelgait.policies.evaluation.evaluate", "sim"),
    "pixelgait-export": ("pixelgait.export.command", "train"),
    "pixelgait-profile": ("pixelgait.robot.profiling.profile_bundle", ""),
    "pixelgait-encoders": ("pixelgait.export.encoder_profile.command", "train"),
    "pixelgait-run": ("pixelgait.robot.ros.run", "ros"),
    "pixelgait-replay": ("pixelgait.robot.recording.replay", "record"),
    "pixelgait-view": ("pixelgait.robot.ros.view", "view"),
    "pixelgait-sim": ("pixelgait.sim.ros.node", "sim,ros"),
    "pixelgait-benchmark": ("pixelgait.sim.benchmarks.benchmark", "sim"),
    "pixelgait-demo": ("pixelgait.export.demo.command", "demo"),
}


def main() -> None:
    """Run the command that this process was started as; all answer --version."""
    command = Path(sys.argv[0]).stem
    if command not in COMMANDS:
        sys.exit(f"error: no command '{command}', choose from {', '.join(COMMANDS)}")
    module, extra = COMMANDS[command]
    if "--version" in own_arguments():
        print(command, version() or "of unknown version: not installed by pip")
        return
    # For Python's resource tracker, which frees the semaphores of killed processes and would
    # warn about that.
    sys.warnoptions.append("ignore:resource_tracker")
    try:
        importlib.import_module(module).main()
    except (KeyboardInterrupt, ImportError) as error:
        if is_interrupt(error):  # during imports
            print("error: interrupted", file=sys.stderr)
            sys.exit(130)
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if not missing:
            raise
        if missing.startswith("pixelgait"):
            if not (new := _in_the_checkout(missing)).exists():
                raise
            sys.exit(f"error: {new} came after the installation: there, pip install --editable .")
        sys.exit(f"error: {command} needs {missing}: in the checkout, pip install -e '.[{extra}]'")


def _in_the_checkout(module: str) -> Path:
    """The file of a module in this checkout, which an older editable install may not know."""
    root = Path(__file__).resolve().parents[2]
    return root.joinpath(*module.split(".")[1:]).with_suffix(".py")


def own_arguments() -> list[str]:
    """The command line without ROS 2's arguments, from --ros-args to the next `--` or the end."""
    own, is_own = [], True
    for argument in sys.argv[1:]:
        if argument == "--ros-args":
            is_own = False
        elif not is_own and argument == "--":
            is_own = True
        elif is_own:
            own.append(argument)
    return own
