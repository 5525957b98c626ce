"""`session-schedule acp`: its arguments, and how it begins; the rest needs the extra `acp`."""

import argparse
import shutil
from pathlib import Path

from schedule_adapters.sessions import SessionStore


class AcpCommandError(Exception):
    """The conversation cannot begin; one line for the person who started it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the command takes beside the session, the store, the zone and the lingering."""
    parser.add_argument(
        "--cwd",
        type=_folder,
        default=".",
        metavar="DIR",
        help="the folder in which the agent works (default: this one)",
    )
    parser.add_argument(
        "--allow",
        action="store_true",
        help="allow, once each, what the agent asks for while it answers you and nobody can be "
        "asked; at a terminal you are asked, and without this it is refused",
    )
    parser.add_argument("agent", metavar="COMMAND", help="the program of the agent")
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="...", help="the arguments of that program"
    )


async def run(arguments: argparse.Namespace, store: SessionStore) -> int:
    """Talk until the person leaves, or standard input ends; gives the exit code.

    Raises:
        AcpCommandError: it cannot begin.
        StoreError: the session cannot be opened.
    """
    try:
        from schedule_adapters.acp.talk import talk  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        raise AcpCommandError(
            f"talking to an agent needs {package}; "
            "install it with: pip install 'session-schedule[acp]'"
        ) from error
    if shutil.which(arguments.agent) is None:
        raise AcpCommandError(f"there is no program {arguments.agent}")
    return await talk(
        store,
        arguments.session,
        command=[arguments.agent, *arguments.arguments],
        cwd=arguments.cwd,
        time_zone=arguments.time_zone,
        linger_s=arguments.linger,
        allows=arguments.allow,
    )


def _folder(text: str) -> Path:
    folder = Path(text).expanduser().resolve()
    if not folder.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not a folder")
    return folder
