"""One session through several lives, and the judgement in the end."""

import asyncio
import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from attrs import asdict, define, field

from tests.faults.diary import Diary
from tests.faults.life import Plan
from tests.faults.verdict import judge, read_session
from tests.faults.zygote import Life, Zygote


@define
class Trial:
    """What happens to one session.

    Attributes:
        url: of the store, as lives reach it; the verdict looks there too unless told else.
        seed: decides what the lives do, and names the trial when it fails.
        openings: how often a life tries to open the session.
    """

    zygote: Zygote
    url: str
    session: str
    seed: int
    openings: int = 1
    lives: list[Diary] = field(factory=list)

    def spawn(self, **what: Any) -> Life:
        """Begin the next life."""
        common = {
            "url": self.url,
            "session": self.session,
            "name": f"life-{len(self.lives)}",
            "seed": self.seed,
            "openings": self.openings,
        }
        life = self.zygote.spawn(Plan(**{**common, **what}))
        self.lives.append(life.diary)
        return life

    def live(self, **what: Any) -> Diary:
        """Live the next life to its end."""
        return self.spawn(**what).end()

    def judge(self, *, url: str | None = None) -> Counter[str]:
        """Let the session settle in a last life without faults, and hold all lives against it.

        Raises:
            AssertionError: a promise was broken; a note names the seed and the diaries.
        """
        try:
            self.live(url=url or self.url, steps=0, settle=True)
            return judge(self.lives, asyncio.run(read_session(url or self.url, self.session)))
        except Exception as error:
            error.add_note(f"seed {self.seed}, session {self.session}, diaries in {self._keep()}")
            raise

    def _keep(self) -> Path:
        with tempfile.NamedTemporaryFile("w", suffix=".diaries", delete=False) as file:
            for number, diary in enumerate(self.lives):
                for entry in diary.entries:
                    file.write(json.dumps([number, asdict(entry)]) + "\n")
        return Path(file.name)
