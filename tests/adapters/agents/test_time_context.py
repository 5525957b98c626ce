"""The client's zone: provenance of prompts, guidance to the model, never a default."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedule_adapters.time_context import (
    TimeContext,
    local_text,
    local_time,
    parse_zone,
    render,
    system_time_zone,
    zone_of_instructions,
)
from schedule_core.instants import MAX_INSTANT, MIN_INSTANT, Instant
from schedule_core.zones import canonical_zone_name
from tests.adapters.agents.agent_world import NOW


@pytest.mark.parametrize(
    ("zones", "expected"),
    [
        (["Europe/Berlin"], "Europe/Berlin"),
        (["europe/berlin", "Europe/Berlin"], "Europe/Berlin"),
        (["UTC"], "UTC"),
        (["Europe/Berlin", "Asia/Tokyo"], None),
        (["Europe/Berlin", None], None),
        (["Europe/Berlin", "nonsense"], None),
        ([None], None),
        ([], None),
    ],
)
def test_one_zone_is_known_only_when_every_prompt_names_the_same(
    zones: list[str | None], expected: str | None
) -> None:
    assert expected == TimeContext.for_zones(zones).zone


def test_a_known_zone_is_to_be_used_and_written_into_the_arguments() -> None:
    text = render(TimeContext.for_zones(["Europe/Berlin"]), NOW)
    assert "always write the offset or the time_zone" in text
    assert text.split("\n")[-3:] == [
        "client_time_zone: Europe/Berlin",
        "current_time_utc: 2026-11-30T18:00:00.000Z",
        "current_local_time: 2026-11-30 19:00:00 (Monday)",
    ]


@pytest.mark.parametrize(
    ("zones", "name"), [([None], "unknown"), (["Europe/Berlin", "Asia/Tokyo"], "mixed")]
)
def test_without_one_zone_the_model_is_told_to_ask(zones: list[str | None], name: str) -> None:
    text = render(TimeContext.for_zones(zones), NOW)
    assert "ask for it before calling a schedule tool" in text
    assert [f"client_time_zone: {name}", "current_time_utc: 2026-11-30T18:00:00.000Z"] == (
        text.split("\n")[-2:]
    )


def test_only_the_last_lines_change_from_turn_to_turn() -> None:
    context = TimeContext.for_zones(["Europe/Berlin"])
    first, later = (render(context, Instant(now)).split("\n") for now in (NOW, NOW + 90_000))
    assert first[:-2] == later[:-2]
    assert first != later


@given(
    st.lists(st.none() | st.sampled_from(["Europe/Berlin", "Asia/Tokyo", "UTC"]) | st.text()),
    st.from_type(Instant),
)
def test_the_zone_is_read_back_from_the_instructions(zones: list[str | None], now: Instant) -> None:
    context = TimeContext.for_zones(zones)
    text = f"You are an assistant.\n\n{render(context, now)}"
    assert context.zone == zone_of_instructions(text)


@pytest.mark.parametrize("text", [None, "", "client_time_zone: nowhere", "x client_time_zone: UTC"])
def test_instructions_without_our_line_name_no_zone(text: str | None) -> None:
    assert zone_of_instructions(text) is None


def test_a_zone_is_accepted_in_any_letter_case() -> None:
    assert parse_zone("europe/berlin") == "Europe/Berlin"


@pytest.mark.parametrize("text", ["", "Berlin", "EST", "Europe/Atlantis", "posix/Europe/Berlin"])
def test_what_is_no_zone_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a time zone; use UTC or .* Europe/Berlin"):
        parse_zone(text)


def test_local_time_outside_the_calendar_is_none() -> None:
    assert local_time(MAX_INSTANT, "Asia/Tokyo") is None
    assert local_time(MIN_INSTANT, "America/New_York") is None
    assert local_text(MAX_INSTANT, "UTC") == "9999-12-31 23:59:59 (Friday)"
    assert "current_local_time" not in render(TimeContext.for_zones(["Asia/Tokyo"]), MAX_INSTANT)


def test_tz_names_the_systems_zone_first(tmp_path: Path) -> None:
    (tmp_path / "timezone").write_text("Asia/Tokyo\n")
    for value in ("Europe/Berlin", ":Europe/Berlin", ":/usr/share/zoneinfo/Europe/Berlin"):
        assert system_time_zone(environment={"TZ": value}, etc=tmp_path) == "Europe/Berlin"


def test_etc_timezone_is_next_and_the_link_last(tmp_path: Path) -> None:
    (tmp_path / "localtime").symlink_to("/usr/share/zoneinfo/Asia/Tokyo")
    assert system_time_zone(environment={"TZ": "CET-1CEST"}, etc=tmp_path) == "Asia/Tokyo"
    (tmp_path / "timezone").write_text("Etc/UTC\n")
    assert system_time_zone(environment={}, etc=tmp_path) == "UTC"
    (tmp_path / "timezone").write_bytes(b"\xff\xfe")
    assert system_time_zone(environment={}, etc=tmp_path) == "Asia/Tokyo"


def test_a_machine_that_does_not_say_has_no_zone(tmp_path: Path) -> None:
    assert system_time_zone(environment={}, etc=tmp_path) is None


def test_this_machine_answers_with_an_accepted_zone_or_none() -> None:
    zone = system_time_zone()
    assert zone is None or canonical_zone_name(zone) == zone
