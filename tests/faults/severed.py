"""Connections to PostgreSQL that are cut: by the wire, at any byte, and by the server."""

import random
import secrets
from collections import Counter
from collections.abc import Callable
from typing import Final

import psycopg
from attrs import define, field
from psycopg import sql

from tests.faults.places import schema_of
from tests.faults.proxy import Fate, proxied
from tests.faults.trial import Trial
from tests.faults.zygote import Life, Zygote

_LIVES: Final = 6
_MOST_REQUESTS: Final = 16
_LONGEST_S: Final = 0.4
APPEND_MARK: Final = b"log/checkpoint"
"""Every batch begins with this event, so a request that has it is an append."""


def run(zygote: Zygote, url: str, *, cuts: int, seed: int) -> Counter[str]:
    """Cut that many connections; gives the counts.

    Args:
        zygote: gives the lives.
        url: of the database, with a schema.
        cuts: how many connections are to be cut.
        seed: of everything that is drawn.

    Raises:
        AssertionError: a promise was broken.
    """
    dice = random.Random(seed)  # noqa: S311 - no secret
    name = f"faults-{secrets.token_hex(6)}"
    counts: Counter[str] = Counter()
    with psycopg.connect(url.partition("?")[0], autocommit=True) as server:
        shears = _Shears(dice, server, schema_of(url))
        with proxied(url, shears.decide) as wire:
            while shears.cuts < cuts:
                number = dice.randrange(1 << 30)
                trial = Trial(zygote, url, f"severed-{number}", number, openings=60)
                for _ in range(_LIVES):
                    life = trial.spawn(url=f"{wire}&application_name={name}", steps=12)
                    _terminate(life, server, name, shears)
                    life.end()
                counts += trial.judge()
    return counts + shears.counts


@define
class _Shears:
    """Decides where wires are cut, and looks at the database when it matters.

    Attributes:
        counts: what was cut, and what had become of the appends.
    """

    dice: random.Random
    server: psycopg.Connection
    schema: str
    counts: Counter[str] = field(factory=Counter)
    doomed: int = 5  # the request of the next connection that comes that far

    @property
    def cuts(self) -> int:
        """How many connections were cut so far."""
        return sum(number for name, number in self.counts.items() if name.startswith("cut "))

    def decide(self, number: int, request: bytes) -> Fate | None:
        """Cut half of the wires at some request, and every third append that comes along."""
        is_append = APPEND_MARK in request
        if number < self.doomed and not (is_append and self.dice.random() < 0.3):
            return Fate(answered=1, saw=self._look(), is_cut=False) if is_append else None
        self.doomed = self.dice.randrange(_MOST_REQUESTS)
        match self.dice.randrange(3):
            case 0:
                self.counts["cut in a request"] += 1
                return Fate(sent=self.dice.random() * 0.999)
            case 1:
                self.counts["cut behind a request"] += 1
                return Fate()
            case _:
                self.counts["cut in an answer"] += 1
                share = self.dice.random() * 0.999
                return (
                    Fate(answered=share, saw=self._look("in doubt "))
                    if is_append
                    else Fate(answered=share)
                )

    def terminated(self, number: int) -> None:
        """Take note of connections that the server itself cut."""
        self.counts["cut by the server"] += number

    def _look(self, doubt: str = "") -> Callable[[bytes], None]:
        """What looks, once the server has answered an append, whether that wrote anything."""
        before = self._lines()

        def look(_: bytes) -> None:
            outcome = "were committed" if self._lines() > before else "found their lines there"
            self.counts[f"appends {doubt}that {outcome}"] += 1

        return look

    def _lines(self) -> int:
        query = sql.SQL("select count(*) from {}.event_line").format(sql.Identifier(self.schema))
        row = self.server.execute(query).fetchone()
        assert row is not None
        return int(row[0])


def _terminate(life: Life, server: psycopg.Connection, name: str, shears: _Shears) -> None:
    """While that life goes on, let the server cut its connections now and then."""
    while not life.diary.ended:
        life.diary.read_for(shears.dice.uniform(0, _LONGEST_S))
        rows = server.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s",
            [name],
        ).fetchall()
        shears.terminated(len(rows))
