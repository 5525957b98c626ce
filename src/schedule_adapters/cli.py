"""`session-schedule`: the command line."""

import argparse
import asyncio
import contextlib
import io
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, NoReturn

from schedule_adapters.absent_agent import AbsentAgent
from schedule_adapters.acp import command as acp_command
from schedule_adapters.catalog import catalog_files, event_catalog_markdown, tool_catalog_markdown
from schedule_adapters.copying import copy_session
from schedule_adapters.doctor import command as doctor_command
from schedule_adapters.doctor import timeline_command
from schedule_adapters.event_lines import event_line
from schedule_adapters.live import LiveSchedule, SystemClock
from schedule_adapters.mcp import command as mcp_command
from schedule_adapters.sessions import SessionStore, StoreError
from schedule_adapters.stores.urls import StoreUrl, open_store, parse_store_url, upgrade_store
from schedule_adapters.time_context import parse_zone, system_time_zone
from schedule_adapters.web import command as web_command
from schedule_adapters.wording import local_moment, printable, reminder_count, view_line
from schedule_core import ScheduleLogError, fold_log, view, zone_data_version

_PROGRAM: Final = "session-schedule"
_FAILED: Final = 1
_USAGE: Final = 2
_INTERRUPTED: Final = 128 + signal.SIGINT
_TERMINATED: Final = 128 + signal.SIGTERM
_MAX_LINGER_S: Final = 366 * 86_400
"""A year: more is a slip of the hand."""


class CommandError(Exception):
    """What went wrong and what to do, for the person at the command line."""


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit: 0 done, 1 failed, 2 used wrongly."""
    arguments = _parser().parse_args(argv)
    for stream in (sys.stdin, sys.stdout):
        if isinstance(stream, io.TextIOWrapper):  # what its encoding lacks must not end a chat
            stream.reconfigure(errors="replace")
    try:
        code = asyncio.run(_run(arguments))
        sys.stdout.flush()
    except (CommandError, StoreError, ScheduleLogError) as error:
        print(f"{_PROGRAM}: {printable(str(error))}", file=sys.stderr)
        code = _FAILED
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except asyncio.CancelledError:
        code = _TERMINATED
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # else the reader has gone, which is fine
            print(f"{_PROGRAM}: {error.strerror or type(error).__name__}", file=sys.stderr)
        # What could not be written stays unwritten; the interpreter must not try again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = _FAILED
    sys.exit(code)


async def _run(arguments: argparse.Namespace) -> int:
    command: Callable[[argparse.Namespace], Awaitable[int | None]] = arguments.run
    async with AsyncExitStack() as closing:
        url = getattr(arguments, "store", None)
        if url is not None:  # every command that has a store finds it open
            store = open_store(url, clock=SystemClock())
            arguments.store = await closing.enter_async_context(store)
        return await command(arguments) or 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=_PROGRAM,
        description="Reminders that come back into the conversation they were made in.",
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"%(prog)s 0.1.0, time zone data {zone_data_version()}",
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_chat(commands)
    _add_web(commands)
    _add_acp(commands)
    _add_mcp(commands)
    _add_list(commands)
    _add_delete(commands)
    _add_events(commands)
    _add_fork(commands)
    _add_copy(commands)
    _add_sessions(commands)
    _add_store(commands)
    _add_doctor(commands)
    _add_timeline(commands)
    _add_catalog(commands)
    return parser


_Commands = argparse._SubParsersAction  # noqa: SLF001 - argparse gives its type no public name


def _command(
    commands: "_Commands[argparse.ArgumentParser]",
    name: str,
    run: Callable[[argparse.Namespace], Awaitable[int | None]],
    summary: str,
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=summary, description=summary[0].upper() + summary[1:] + "."
    )
    parser.set_defaults(run=run)
    return parser


def _add_session(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--session", default="main", metavar="NAME", help="the session (default: main)"
    )
    _add_root(parser)


def _add_root(parser: argparse.ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--root",
        dest="store",
        type=_root,
        default=str(_default_root()),
        metavar="DIR",
        help="the folder in which sessions are kept (default: %(default)s)",
    )
    where.add_argument(
        "--store",
        type=_store,
        metavar="URL",
        help="the store in which they are kept: jsonl:DIR (the same as --root DIR), "
        "sqlite:FILE, or postgresql://USER@HOST/DATABASE",
    )


def _store(url: str) -> StoreUrl:
    try:
        return parse_store_url(url)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _root(folder: str) -> StoreUrl:
    return _store(f"jsonl:{folder}")


def _default_root() -> Path:
    data_home = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data_home).expanduser() / _PROGRAM


def _add_zone(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--time-zone",
        type=_zone,
        default=system_time_zone(),
        metavar="ZONE",
        help="your IANA time zone, such as Europe/Berlin (default: this machine's, %(default)s)",
    )


def _add_linger(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--linger",
        type=_seconds,
        default=0.0,
        metavar="SECONDS",
        help="when standard input is not a terminal: after the last line, wait until the "
        "reminders due within this time have come back (default: 0)",
    )


def _zone(text: str) -> str:
    try:
        return parse_zone(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 <= (seconds := float(text)) <= _MAX_LINGER_S:
            return seconds
    raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to {_MAX_LINGER_S}")


def _add_chat(commands: "_Commands[argparse.ArgumentParser]") -> None:
    parser = _command(commands, "chat", _chat, "talk to an agent that keeps reminders")
    _add_session(parser)
    parser.add_argument(
        "--model",
        default="offline",
        help=(
            "offline (the default: rules, no key, no network), or a pydantic-ai model such as "
            "ollama:NAME, openai-chat:NAME or anthropic:NAME"
        ),
    )
    _add_zone(parser)
    _add_linger(parser)


async def _chat(arguments: argparse.Namespace) -> int:
    try:
        from schedule_adapters.chat.run import ChatError, chat  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        raise CommandError(
            f"the chat needs {package}; install it with: pip install '{_PROGRAM}[chat]'"
        ) from error
    try:
        return await chat(
            arguments.store,
            arguments.session,
            model=arguments.model,
            time_zone=arguments.time_zone,
            linger_s=arguments.linger,
        )
    except ChatError as error:
        raise CommandError(str(error)) from error


def _add_web(commands: "_Commands[argparse.ArgumentParser]") -> None:
    parser = _command(commands, "web", _web, "serve a page with conversations that keep reminders")
    _add_root(parser)
    web_command.add_arguments(parser)


async def _web(arguments: argparse.Namespace) -> int:
    try:
        return await web_command.run(arguments, arguments.store)
    except web_command.WebError as error:
        raise CommandError(str(error)) from error


def _add_acp(commands: "_Commands[argparse.ArgumentParser]") -> None:
    parser = _command(commands, "acp", _acp, "talk to an agent that speaks ACP, with reminders")
    _add_session(parser)
    _add_zone(parser)
    _add_linger(parser)
    acp_command.add_arguments(parser)


async def _acp(arguments: argparse.Namespace) -> int:
    try:
        return await acp_command.run(arguments, arguments.store)
    except acp_command.AcpCommandError as error:
        raise CommandError(str(error)) from error


def _add_mcp(commands: "_Commands[argparse.ArgumentParser]") -> None:
    parser = _command(commands, "mcp", _mcp, "serve the tools of a session to an MCP host")
    _add_session(parser)
    mcp_command.add_arguments(parser)


async def _mcp(arguments: argparse.Namespace) -> int:
    try:
        return await mcp_command.run(arguments, arguments.store)
    except mcp_command.McpError as error:
        raise CommandError(str(error)) from error


def _add_list(commands: "_Commands[argparse.ArgumentParser]") -> None:
    parser = _command(commands, "list", _list, "list the active reminders of a session")
    _add_session(parser)
    _add_zone(parser)


async def _list(arguments: argparse.Namespace) -> None:
    snapshot = await arguments.store.read(arguments.session)
    now = SystemClock().now()
    schedules = fold_log(snapshot.events, snapshot.header.seed_length)
    for record in schedules.active:
        print(view_line(view(record, now), now, arguments.time_zone))
    if not schedules.active:
        print("no reminders")


def _add_delete(commands: "_Commands[argparse.ArgumentParser]") -> None:
    parser = _command(commands, "delete", _delete, "delete one reminder of a session")
    _add_session(parser)
    parser.add_argument("id", metavar="ID", help="an id that the list shows")


async def _delete(arguments: argparse.Namespace) -> None:
    store: SessionStore = arguments.store
    await store.read(arguments.session)  # a misspelt name must not make a session
    session = await store.open(arguments.session)
    try:
        schedule = LiveSchedule(AbsentAgent(), session, name=arguments.session)
        answer = await schedule.call_tool("schedule_delete", {"id": arguments.id})
        await schedule.close()
    finally:
        await session.close()
    match answer:
        case {"deleted": True}:
            print(f"deleted {arguments.id}")
        case {"deleted": False}:
            raise CommandError(f"there is no active reminder {arguments.id}")
        case _:
            raise CommandError(_message_of(answer))


def _message_of(answer: object) -> str:
    return str(answer["message"]) if isinstance(answer, dict) else str(answer)


def _add_events(commands: "_Commands[argparse.ArgumentParser]") -> None:
    parser = _command(commands, "events", _events, "show the event log of a session")
    _add_session(parser)
    _add_zone(parser)


async def _events(arguments: argparse.Namespace) -> None:
    snapshot = await arguments.store.read(arguments.session)
    for event in snapshot.events:
        print(event_line(event, arguments.time_zone))


def _add_fork(commands: "_Commands[argparse.ArgumentParser]") -> None:
    parser = _command(commands, "fork", _fork, "begin a session with the history of another")
    _add_root(parser)
    parser.add_argument("parent", metavar="PARENT", help="the session to fork")
    parser.add_argument("child", metavar="CHILD", help="the name of the new session")


async def _fork(arguments: argparse.Namespace) -> None:
    header = await arguments.store.fork(arguments.parent, arguments.child)
    print(
        f"{arguments.child} begins with {header.seed_length} events of {arguments.parent}; "
        "its reminders stay with the parent"
    )


def _add_copy(commands: "_Commands[argparse.ArgumentParser]") -> None:
    parser = _command(commands, "copy", _copy, "copy sessions into another store")
    parser.add_argument("store", type=_store, metavar="FROM", help="the store to copy from")
    parser.add_argument("target", type=_store, metavar="TO", help="the store to copy to")
    parser.add_argument(
        "--session",
        action="append",
        dest="sessions",
        metavar="NAME",
        help="copy this session alone; may be given several times (default: all)",
    )


async def _copy(arguments: argparse.Namespace) -> int:
    source: SessionStore = arguments.store
    failures = copied = 0
    async with open_store(arguments.target, clock=SystemClock()) as target:
        for session_id in arguments.sessions or await source.session_ids():
            name = printable(session_id)
            try:
                size = await copy_session(source, target, session_id)
            except StoreError as error:
                failures += 1
                print(f"{name}  not copied: {printable(str(error))}", file=sys.stderr)
            else:
                copied += 1
                print(f"{name}  {size} bytes")
    if copied:
        print("open the copies from now on: a reminder comes back in each store it is opened in")
    return _FAILED if failures else 0


def _add_store(commands: "_Commands[argparse.ArgumentParser]") -> None:
    parser = _command(commands, "store", _upgrade_store, "look after a store: bring it up to date")
    parser.add_argument("action", choices=["upgrade"], help="the only thing there is to do")
    parser.add_argument(
        "--store",
        dest="outdated",  # opening it as other commands do would be refused
        type=_store,
        required=True,
        metavar="URL",
        help="a PostgreSQL store whose tables an older release made",
    )


async def _upgrade_store(arguments: argparse.Namespace) -> None:
    url: StoreUrl = arguments.outdated
    print(await upgrade_store(url))


def _add_sessions(commands: "_Commands[argparse.ArgumentParser]") -> None:
    parser = _command(commands, "sessions", _sessions, "list the sessions")
    _add_root(parser)
    _add_zone(parser)


async def _sessions(arguments: argparse.Namespace) -> int:
    store: SessionStore = arguments.store
    failures = 0
    for session_id in await store.session_ids():
        name = printable(session_id)
        try:
            snapshot = await store.read(session_id)
            schedules = fold_log(snapshot.events, snapshot.header.seed_length)
        except (StoreError, ScheduleLogError) as error:
            failures += 1
            print(f"{name}  {printable(str(error))}", file=sys.stderr)
            continue
        following = schedules.earliest()
        pending = reminder_count(schedules.active_count)
        if following is not None:
            pending += f", next {local_moment(following.scheduled_at, arguments.time_zone)}"
        print(f"{name}  {len(snapshot.events)} events, {pending}")
    return _FAILED if failures else 0


def _add_doctor(commands: "_Commands[argparse.ArgumentParser]") -> None:
    parser = _command(commands, "doctor", doctor_command.run, "say what is wrong with session logs")
    doctor_command.add_arguments(parser)


def _add_timeline(commands: "_Commands[argparse.ArgumentParser]") -> None:
    parser = _command(commands, "timeline", timeline_command.run, "draw the reminders of a log")
    timeline_command.add_arguments(parser)
    _add_zone(parser)


def _add_catalog(commands: "_Commands[argparse.ArgumentParser]") -> None:
    parser = _command(commands, "catalog", _catalog, "show what the tools and the events are")
    parser.add_argument("--json", action="store_true", help="the tools as JSON instead of Markdown")
    parser.add_argument(
        "--write", type=Path, metavar="DIR", help="write the catalog files into this folder"
    )


async def _catalog(arguments: argparse.Namespace) -> None:
    files = dict(catalog_files())
    if arguments.write is not None:
        arguments.write.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (arguments.write / name).write_text(content, "utf-8")
        return
    if arguments.json:
        print(files["tool-catalog.json"], end="")
    else:
        print(tool_catalog_markdown())
        print(event_catalog_markdown(), end="")


logging.getLogger("schedule_adapters").addHandler(logging.NullHandler())
