"""Console scripts: run a command's module, or name the extra that it needs."""

from __future__ import annotations

import os
import signal
import sys

# Further imports are in functions: an interrupt is answered only once they are running.
# Command: (module with its `main`, extra that installs what it imports).
# Modules are named, not imported: this folder must run where the others' libraries are missing.
COMMANDS = {
    "pixelgait-train": ("pixelgait.policies.training.train", "train"),
    "pixelgait-eval": ("pixelgait.policies.evaluation.evaluate", "sim"),
    "pixelgait-export": ("pixelgait.export.command", "train"),
    "pixelgait-profile": ("pixelgait.robot.profiling.profile_bundle", ""),
    "pixelgait-encoders": ("pixelgait.export.encoder_profile.command", "train"),
    "pixelgait-run": ("pixelgait.robot.ros.run", "ros"),
    "pixelgait-order": ("pixelgait.robot.direct.orders", ""),
    "pixelgait-replay": ("pixelgait.robot.viewing.replay_command", "record"),
    "pixelgait-view": ("pixelgait.robot.ros.view", "view"),
    "pixelgait-house": ("pixelgait.sim.scenes.houses.house_from_mesh", "sim"),
    "pixelgait-sim": ("pixelgait.sim.ros.node", "sim,ros"),
    "pixelgait-benchmark": ("pixelgait.sim.benchmarks.benchmark", "sim"),
    "pixelgait-robot": ("pixelgait.sim.viewing.robot_command", "sim"),
    "pixelgait-demo": ("pixelgait.export.demo.command", "demo"),
}
INTERRUPTED = 130  # exit code after Ctrl-C
NO_BYTECODE, BYTECODE_FOLDER = "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"


def main() -> None:
    """Run the command that this process was started as; all answer --version."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # else it is ignored, as in the background of a shell
        signal.signal(signal.SIGINT, _end_at_once)
    command = os.path.basename(sys.argv[0]).removesuffix(".py")
    if command not in COMMANDS:
        sys.exit(f"error: no command '{command}', choose from {', '.join(COMMANDS)}")
    if "--version" in own_arguments():
        from pixelgait.robot.cli.provenance import version

        print(command, version() or "of unknown version: not installed by pip")
        return
    keep_bytecode()
    # For Python's resource tracker, which frees the semaphores of killed processes and would
    # warn about that.
    sys.warnoptions.append("ignore:resource_tracker")
    _run(command, before)


def _end_at_once(*_: object) -> None:
    """Handler of SIGINT during imports: an exception there may get lost, or a C library end."""
    os.write(2, b"error: interrupted\n")
    os._exit(INTERRUPTED)


def _run(command: str, interrupt_handler: object) -> None:
    """Import the command's module, and run it with this handler of SIGINT."""
    import importlib

    from pixelgait.robot.errors import is_interrupt

    module, extra = COMMANDS[command]
    try:
        run = importlib.import_module(module).main
        signal.signal(signal.SIGINT, interrupt_handler)  # type: ignore[arg-type]
        run()
    except (KeyboardInterrupt, ImportError) as error:
        if is_interrupt(error):
            print("error: interrupted", file=sys.stderr)
            sys.exit(INTERRUPTED)
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if not missing:
            raise
        if missing.startswith("pixelgait"):
            if not os.path.exists(new := _in_the_checkout(missing)):
                raise
            sys.exit(f"error: {new} came after the installation: there, pip install --editable .")
        sys.exit(f"error: {command} needs {missing}: pip install 'pixelgait[{extra}]'")


def keep_bytecode() -> None:
    """Keep bytecode in the user's cache folder where Python is told to write none.

    Containers often set PYTHONDONTWRITEBYTECODE. Every process would compile all libraries anew,
    which takes 1 s, with torch 4 s. PYTHONPYCACHEPREFIX names another folder; Python's option -B
    is obeyed.
    """
    wanted = os.environ.get(NO_BYTECODE) and sys.pycache_prefix is None
    if not wanted or os.path.exists(_bytecode_of_a_library()):
        return
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = os.path.join(cache, "pixelgait", "bytecode")
    sys.pycache_prefix, sys.dont_write_bytecode = folder, False
    os.environ.pop(NO_BYTECODE)
    os.environ[BYTECODE_FOLDER] = folder  # for child processes


def _bytecode_of_a_library() -> str:
    """The path of a library's bytecode, which may exist: pip writes some by default."""
    from importlib.util import find_spec

    spec = find_spec("numpy")
    return (spec and spec.cached) or ""


def _in_the_checkout(module: str) -> str:
    """The file of a module in this checkout, which an older editable install may not know."""
    root = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", ".."))
    return os.path.join(root, *module.split(".")[1:]) + ".py"


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
