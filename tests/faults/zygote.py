"""A process that has everything imported and forks lives off, so that one costs milliseconds.

Run as `python -m tests.faults.zygote DESCRIPTOR`; the descriptor is its end of the socket.
Each request is a plan with two descriptors: where the diary goes, and what to hold for.
"""

import gc
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from attrs import asdict, define

import schedule_adapters.stores.sqlite  # noqa: F401 - the store that would be imported on demand
from tests.faults.diary import Diary, Pen
from tests.faults.life import Plan, run

ROOT: Final = Path(__file__).parents[2]
_REQUEST: Final = 1 << 16


@define
class Life:
    """The parent's hold on one life.

    Attributes:
        pid: its process.
        diary: what it writes.
    """

    pid: int
    diary: Diary
    _process: int  # a descriptor of the process, so that no other one is ever meant
    _gate: int  # what a held life waits for

    def release(self) -> None:
        """Let a held life begin."""
        os.write(self._gate, b"!")

    def send(self, number: signal.Signals) -> None:
        """Send it a signal; nothing happens if it is gone."""
        if self._process != -1:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, number)

    def kill(self) -> None:
        """Kill it, and read what it left."""
        self.send(signal.SIGKILL)
        self.end()

    def end(self) -> Diary:
        """Wait for its end, if it is still to come; gives its diary."""
        self.diary.read_to_end()
        if self._process != -1:
            os.close(self._process)
            os.close(self._gate)
            self._process = self._gate = -1
        return self.diary


class Zygote:
    """The parent's side: asks for lives."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def spawn(self, plan: Plan) -> Life:
        """Begin a life."""
        diary, sink = Diary.open()
        hold, gate = os.pipe()
        request = json.dumps(asdict(plan)).encode()
        socket.send_fds(self._channel, [request], [sink, hold])
        os.close(sink)
        os.close(hold)
        pid = int(self._channel.recv(_REQUEST))
        process = os.pidfd_open(pid)
        self._channel.send(b"go")  # only now may the child end, and its number be used again
        return Life(pid, diary, process, gate)

    def live(self, plan: Plan) -> Diary:
        """Live a whole life."""
        return self.spawn(plan).end()


@contextmanager
def zygote() -> Iterator[Zygote]:
    """A warmed-up zygote, gone at the end."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "tests.faults.zygote", str(there.fileno())]
    with (
        subprocess.Popen(  # noqa: S603 - our own program
            command, cwd=ROOT, pass_fds=[there.fileno()], stdin=subprocess.DEVNULL
        ),
        here,
    ):
        there.close()
        yield Zygote(here)


def _serve(channel: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, lambda *_: _bury())
    gc.freeze()  # or each child would copy all that it merely looks through
    while True:
        request, descriptors, _, _ = socket.recv_fds(channel, _REQUEST, 2)
        if not request:
            return
        waiting, start = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(start)
            os.read(waiting, 1)
            os.close(waiting)
            channel.close()
            _begin(json.loads(request), *descriptors)
        for descriptor in (*descriptors, waiting):
            os.close(descriptor)
        channel.send(str(pid).encode())
        channel.recv(_REQUEST)
        os.close(start)


def _bury() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _begin(plan: dict[str, Any], sink: int, hold: int) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    life = Plan(**plan)
    if life.hold:
        os.read(hold, 1)
    os.close(hold)
    run(life, Pen(sink))
    os._exit(0)  # no atexit of the zygote's


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
