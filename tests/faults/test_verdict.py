"""The oracles themselves: each lie about a sound history is found, and the truth is not."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from attrs import evolve

from schedule_adapters.sessions import SessionSnapshot
from schedule_core import SessionEvent
from tests.faults.diary import Diary, Entry
from tests.faults.places import url_in
from tests.faults.trial import Trial
from tests.faults.verdict import judge, read_session
from tests.faults.zygote import Zygote

History = tuple[list[Diary], SessionSnapshot]
SEED = 12


@pytest.fixture(scope="module")
def sound(lives: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """Two lives of one session, the second one settled."""
    trial = Trial(lives, url_in("jsonl", tmp_path_factory.mktemp("sound")), "main", SEED)
    trial.live(steps=40)
    trial.live(steps=0, settle=True)
    return trial


def _events(found: SessionSnapshot, events: Sequence[SessionEvent]) -> SessionSnapshot:
    numbered = [evolve(event, seq=seq) for seq, event in enumerate(events)]
    return evolve(found, events=tuple(numbered))


def _first(diaries: Sequence[Diary], tool: str) -> dict[str, Any]:
    return next(e for d in diaries for e in d.of("got") if e["tool"] == tool)


def lose_the_end(diaries: list[Diary], found: SessionSnapshot) -> History:
    length = diaries[1].of("opened")[0]["length"]
    return diaries, evolve(found, events=found.events[: length - 2])


def lose_a_create_in_the_diary_only(diaries: list[Diary], found: SessionSnapshot) -> History:
    answer = {**_first(diaries, "schedule_create")["answer"], "id": "schedule-999"}
    entry = Entry("got", {"tool": "schedule_create", "arguments": {}, "answer": answer})
    return [*diaries[:1], Diary([entry, *diaries[1].entries])], found


def lose_a_delete(diaries: list[Diary], found: SessionSnapshot) -> History:
    answer = {"id": "schedule-999", "deleted": True}
    entry = Entry("got", {"tool": "schedule_delete", "arguments": {}, "answer": answer})
    return [*diaries[:1], Diary([entry, *diaries[1].entries])], found


def hear_it_again(diaries: list[Diary], found: SessionSnapshot) -> History:
    heard = next(entry for entry in diaries[0].entries if entry.kind == "heard")
    return [*diaries[:1], Diary([heard, *diaries[1].entries])], found


def hear_what_was_deleted(diaries: list[Diary], found: SessionSnapshot) -> History:
    name = _first(diaries, "schedule_delete")["answer"]["id"]
    heard = Entry("heard", {"name": name, "time": 0})
    return [*diaries[:1], Diary([heard, *diaries[1].entries])], found


def invent_an_event(diaries: list[Diary], found: SessionSnapshot) -> History:
    return diaries, _events(found, [*found.events, SessionEvent("x/y", {}, time=1)])


def leave_a_gap(diaries: list[Diary], found: SessionSnapshot) -> History:
    return diaries, evolve(found, events=found.events[:3] + found.events[4:])


def list_too_little(diaries: list[Diary], found: SessionSnapshot) -> History:
    entry = Entry("got", {"tool": "schedule_list", "arguments": {}, "answer": []})
    return [*diaries[:1], Diary([entry, *diaries[1].entries])], found


def list_too_much(diaries: list[Diary], found: SessionSnapshot) -> History:
    answer = [*_first(diaries, "schedule_list")["answer"], {"id": "schedule-999"}]
    data = {"tool": "schedule_list", "arguments": {}, "answer": answer}
    place = next(n for n, e in enumerate(diaries[0].entries) if e.data.get("tool") == data["tool"])
    entries = [*diaries[0].entries[:place], Entry("got", data)]
    return [Diary(entries), *diaries[1:]], found


def never_settle(diaries: list[Diary], found: SessionSnapshot) -> History:
    return [*diaries, Diary()], found


LIES = {
    lose_the_end: "lost",
    lose_a_create_in_the_diary_only: "acknowledged creates are lost",
    lose_a_delete: "acknowledged deletes are lost",
    hear_it_again: "heard twice",
    hear_what_was_deleted: "deleted reminders were heard",
    invent_an_event: "nobody appended",
    leave_a_gap: "doctor",
    list_too_little: "a list lacks",
    list_too_much: "nobody created",
    never_settle: "did not settle",
}


async def test_the_truth_passes(sound: Trial) -> None:
    found = await read_session(sound.url, "main")
    counts = judge(sound.lives, found)
    assert counts["creates acknowledged"] > 10
    assert counts["deletes acknowledged"] > 1


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
async def test_a_lie_is_found(lie: Callable[..., History], sound: Trial) -> None:
    found = await read_session(sound.url, "main")
    assert found is not None
    with pytest.raises(AssertionError, match=LIES[lie]):
        judge(*lie(sound.lives, found))
