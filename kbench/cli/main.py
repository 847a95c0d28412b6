"""The `kbench` command: what was asked for, and which part of the product answers it.

Nothing heavy is imported here: `--version` and `--help` answer at once, a run of code loads no
terminal interface, and the terminal is looked at before Textual is, which does not look itself.

Results go to standard output, everything else to standard error; exit codes are `exit_codes`'s.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from kbench.cli.exit_codes import (
    FAILED,
    INTERRUPTED,
    NO_KERNEL,
    OK,
    PICTURES,
    USAGE,
    check_theme,
    terminal_refusal,
    workbench,
)
from kbench.version import __version__

COMMANDS = {
    "config": "show the settings, or read or write one",
    "doctor": "versions, threads, kernel cache, and what this machine can do",
    "warmup": "compile every library kernel now, so that no first call is slow",
    "bench": "run the benchmarks and compare with NumPy, PyTorch, JAX and TensorFlow",
    "learn": "list the lessons, or take one",
}

USAGE_TEXT = """kbench [options]
       kbench [options] -c CODE [argument ...]
       kbench [options] SCRIPT [argument ...]
       kbench [options] -m MODULE [argument ...]
       kbench [options] - [argument ...]
       kbench COMMAND [--help]"""

EPILOG = """commands:
{commands}

Without a terminal, with TERM=dumb or with CI set, `kbench` runs what standard input holds.
With -c and standard input the backend is imported as K and the last value is shown:

  kbench -c 'K.eval(K.softmax([1., 2., 3.]))'

exit codes: 0 success, 1 the code failed, 2 wrong usage or configuration,
3 the kernel could not start or be attached to, 129 the terminal was closed, 130 interrupted"""

_VALUE_OPTIONS = ("--screenshot", "--size", "--theme", "--script", "--motion", "--pictures")
_OPTIONAL_VALUE = "--existing"
_TARGET_OPTIONS = ("-c", "-m")


def _epilog() -> str:
    width = max(map(len, COMMANDS))
    return EPILOG.format(
        commands="\n".join(f"  {name:<{width}}  {text}" for name, text in COMMANDS.items())
    )


def _size(text: str) -> tuple[int, int]:
    columns, cross, rows = text.lower().partition("x")
    if not (cross and columns.isdigit() and rows.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not COLUMNSxROWS, such as 120x40")
    size = int(columns), int(rows)
    if not (20 <= size[0] <= 1000 and 5 <= size[1] <= 500):
        raise argparse.ArgumentTypeError(f"{text!r} is outside 20x5 to 1000x500")
    return size


def make_parser() -> argparse.ArgumentParser:
    """The parser of everything up to the target; what follows a target belongs to the target."""
    parser = argparse.ArgumentParser(
        prog="kbench",
        usage=USAGE_TEXT,
        description="An interactive tensor workbench: the Keras backend API, live.",
        epilog=_epilog(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"kbench {__version__}")
    target = parser.add_mutually_exclusive_group()
    target.add_argument("-c", metavar="CODE", dest="code", help="run CODE and show its last value")
    target.add_argument("-m", metavar="MODULE", dest="module", help="run a module as a script")
    target.add_argument("target", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument(
        "--plain", action="store_true", help="a line-by-line prompt, for screen readers"
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="write the result as one JSON document; prints go to standard error",
    )
    parser.add_argument(
        "--full-traceback", action="store_true", help="show kbench's own frames in errors too"
    )
    parser.add_argument(
        _OPTIONAL_VALUE,
        nargs="?",
        const="",
        metavar="FILE|ID",
        help="attach to a running Jupyter kernel: its connection file, or part of its name",
    )
    parser.add_argument(
        "--resume", action="store_true", help="restore the cells of an earlier session"
    )
    pictures = parser.add_argument_group("pictures of the workbench")
    pictures.add_argument("--screenshot", metavar="OUT.svg", help="draw it without a terminal")
    pictures.add_argument("--size", type=_size, metavar="COLUMNSxROWS", help="such as 120x40")
    pictures.add_argument(
        "--script", metavar="FILE.kbs", help="keys and code to play before it is drawn"
    )
    parser.add_argument(
        "--theme", help="of the workbench: dark, light, contrast, ansi, or one of the palette"
    )
    parser.add_argument("--motion", choices=("full", "none"), help="none: no animation")
    parser.add_argument(
        "--pictures",
        choices=PICTURES,
        help="how the workbench draws pictures; auto asks the terminal",
    )
    parser.add_argument(
        "--ascii", action="store_true", help="draw the workbench without box and block characters"
    )
    return parser


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Cut the command line after its target, as Python does, so that a script keeps its options."""
    index = 0
    while index < len(arguments):
        word = arguments[index]
        if word in _TARGET_OPTIONS:
            index += 2
            break
        if word in _VALUE_OPTIONS:
            index += 2
            continue
        index += 1
        if word == _OPTIONAL_VALUE and arguments[index : index + 1]:
            index += not arguments[index].startswith("-")
            continue
        glued = word.startswith(_TARGET_OPTIONS) and not word.startswith("--")
        if glued or word == "-" or not word.startswith("-"):
            break
    return list(arguments[:index]), list(arguments[index:])


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    runs = options.code is not None or options.module is not None or options.target is not None
    command = options.target in COMMANDS
    if options.screenshot is None:
        if options.script is not None or options.size is not None:
            parser.error("--size and --script only apply to --screenshot")
    elif runs or options.plain or options.json:
        parser.error("--screenshot draws the workbench; it takes no code, --plain or --json")
    if options.plain and (runs or options.json):
        parser.error("--plain opens a prompt; it takes no code and no --json")
    if options.theme and (runs or options.plain):
        parser.error("--theme only applies to the workbench and --screenshot")
    if options.motion and (runs or options.plain or options.screenshot):
        parser.error("--motion only applies to the workbench")
    if options.pictures and (runs or options.plain or options.screenshot):
        parser.error("--pictures only applies to the workbench")
    if options.ascii and (runs or options.plain or options.screenshot):
        parser.error("--ascii only applies to the workbench")
    other = runs or options.json or options.screenshot is not None
    if options.existing is not None and other:
        parser.error("--existing opens a session; it takes no code, --json or --screenshot")
    if options.resume and (other or options.existing is not None):
        parser.error("--resume opens a session; it takes no code, --json, --screenshot, --existing")
    if command and (options.json or options.full_traceback):
        parser.error(f"options of a command follow it: kbench {options.target} --json")


def _command(name: str, arguments: list[str]) -> int:
    # Not `from kbench import`, which would load the package: these say what keeps it from loading.
    if name == "doctor":
        return int(importlib.import_module("kbench.cli.doctor").main(arguments))
    return int(importlib.import_module("kbench.cli.tools").MAINS[name](arguments))


def _load() -> None:
    """Load the package, which says what is wrong with the chosen engine, before anything is run."""
    from kbench import floatx

    floatx()


def _run(options: argparse.Namespace, arguments: list[str]) -> int:
    from kbench.cli import run

    _load()
    style = run.Style(as_json=options.json, full_traceback=options.full_traceback)
    if options.code is not None:
        return run.run_code(options.code, arguments, style)
    if options.module is not None:
        return run.run_module(options.module, arguments, style)
    if options.target == "-" or options.target is None:
        return run.run_stdin(arguments, style, named=options.target == "-")
    return run.run_script(options.target, arguments, style)


def _screenshot(options: argparse.Namespace) -> int:
    from kbench.tui import screenshot

    try:
        check_theme(options.theme)
        screenshot.render(options.screenshot, options.size, options.theme, options.script)
    except ValueError as error:
        print(f"kbench: {error}", file=sys.stderr)
        return USAGE
    return OK


def _attach(options: argparse.Namespace, refusal: str | None) -> int:
    """`--existing`: the workbench, or the prompt of lines, in a kernel that runs already."""
    from kbench.cli import attach
    from kbench.workbench.session.running_kernels import AttachError

    _load()
    try:
        options.kernels = attach.kernels(options.existing)
    except AttachError as error:
        print(f"kbench: {error}", file=sys.stderr)
        return NO_KERNEL
    if refusal is not None or options.plain:
        return attach.plain(options.kernels)
    return workbench(options)


def _dispatch(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> int:
    head, rest = split(arguments)
    options = parser.parse_args(head)
    _check(parser, options)
    if options.target in COMMANDS:
        return _command(options.target, rest)
    if options.code is not None or options.module is not None or options.target is not None:
        return _run(options, rest)
    if options.screenshot is not None:
        return _screenshot(options)
    refusal = terminal_refusal()
    if options.existing is not None:
        return _attach(options, refusal)
    if refusal is None and not options.plain and not options.json:
        return workbench(options)
    if sys.stdin is not None and sys.stdin.isatty() and not options.json:
        from kbench.cli import plain

        _load()
        if refusal is not None and not options.plain:
            print(f"kbench: {refusal}, so this is the plain prompt", file=sys.stderr)
        if not options.resume:
            return plain.run()
        from kbench.cli import resume

        return plain.run(resume.offer)
    if options.resume:
        parser.error("--resume asks what to restore, and standard input is not a terminal")
    return _run(options, rest)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    parser = make_parser()
    try:
        code = _dispatch(parser, sys.argv[1:] if arguments is None else arguments)
        if sys.stdout is not None and not sys.stdout.closed:  # by the program that ran
            sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("kbench: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has gone (`kbench ... | head`): nothing to tell it, and nothing to flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        print(f"kbench: {error}", file=sys.stderr)
        return USAGE
    except ImportError as error:
        from kbench.engine.core.errors import EngineError

        if not isinstance(error, EngineError):
            raise
        print(f"kbench: {error}", file=sys.stderr)
        return USAGE
