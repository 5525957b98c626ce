"""The bytes of a whole file: torn tail or corruption."""

import pytest

from schedule_adapters.sessions import SessionHeader, StoreError, StoreErrorCode
from schedule_adapters.stores.log_format import event_line, header_line
from schedule_adapters.stores.log_image import read_log
from schedule_core.ports import SessionEvent

HEADER = header_line(SessionHeader("one", 1))

BAD_LINES = {
    "cut short": b'{"type":"x","seq":2,"ti',
    "NUL run": b"\0" * 64,
    "glued": event_line(SessionEvent("x", 1, seq=2, time=1)).strip() * 2,
    "gap": event_line(SessionEvent("x", 1, seq=3, time=1)).strip(),
    "repeat": event_line(SessionEvent("x", 1, seq=1, time=1)).strip(),
    "not UTF-8": b'{"type":"\xff","seq":2,"time":1,"data":1}',
    "byte order mark": b'\xef\xbb\xbf{"type":"x","seq":2,"time":1,"data":1}',
    "blank": b"",
    "carriage return": b"\r",
}


def event(seq: int) -> bytes:
    """A well-formed line of a type that means nothing here."""
    return event_line(SessionEvent("x", {"n": seq}, seq=seq, time=1))


def checkpoint(seq: int, durable: object) -> bytes:
    """The first line of a batch."""
    return event_line(SessionEvent("log/checkpoint", {"durable": durable}, seq=seq, time=1))


def seqs(image: bytes) -> list[int]:
    """The numbers of the events that are read."""
    return [event.seq for event in read_log(image, "f").events]


def corruption(image: bytes) -> StoreError:
    """The error of a log that must not be read."""
    with pytest.raises(StoreError) as caught:
        read_log(image, "f")
    assert caught.value.code == StoreErrorCode.CORRUPT_LOG
    assert caught.value.where == "f"
    return caught.value


def test_sound_log_has_no_tail() -> None:
    image = HEADER + checkpoint(0, -1) + event(1)

    log = read_log(image, "f")

    assert log.torn is None
    assert (log.header_size, log.size) == (len(HEADER), len(image))
    assert [e.seq for e in log.events] == [0, 1]


def test_header_alone_is_a_log() -> None:
    """The original may write one before the first event."""
    assert read_log(HEADER, "f").events == []


@pytest.mark.parametrize(
    "image", [b"", b"\n", HEADER[:-1], HEADER[:10], b"\0" * 40 + b"\n", b"\n" + HEADER, event(0)]
)
def test_bad_header_is_always_corruption(image: bytes) -> None:
    """It was published whole, so no crash leaves a part of it."""
    error = corruption(image)

    assert (error.line, error.offset) == (1, 0)


def test_last_line_is_torn_at_every_byte() -> None:
    """Cut anywhere, the newline included, the last event is not there and the rest is."""
    before = HEADER + checkpoint(0, -1) + event(1)
    last = event(2)

    for size in range(1, len(last)):
        log = read_log(before + last[:size], "f")
        assert [e.seq for e in log.events] == [0, 1]
        assert log.size == len(before)
        assert log.torn is not None
        assert (log.torn.line, log.torn.offset) == (4, len(before))
        assert log.torn.reason == "the line has no newline at its end"


@pytest.mark.parametrize("bad", BAD_LINES.values(), ids=BAD_LINES)
def test_bad_line_beyond_every_checkpoint_is_torn(bad: bytes) -> None:
    """Whatever follows it in the same batch is as uncommitted as the line itself."""
    before = HEADER + checkpoint(0, -1) + event(1)

    for after in (b"", event(3), event(3) + event(4)[:9]):
        log = read_log(before + bad + b"\n" + after, "f")
        assert [e.seq for e in log.events] == [0, 1]
        assert log.size == len(before)
        assert log.torn is not None


@pytest.mark.parametrize("bad", BAD_LINES.values(), ids=BAD_LINES)
def test_bad_line_below_a_later_checkpoint_is_corruption(bad: bytes) -> None:
    """Something that was durable is gone: say where, and read nothing."""
    before = HEADER + checkpoint(0, -1) + event(1)

    for durable in (2, 3):
        error = corruption(before + bad + b"\n" + event(3) + checkpoint(4, durable) + event(5))
        assert (error.line, error.offset) == (4, len(before))


def test_checkpoint_that_knows_less_proves_nothing() -> None:
    """A batch that began before the bad line was durable says nothing about it."""
    before = HEADER + checkpoint(0, -1) + event(1)

    assert seqs(before + b"bad\n" + event(3) + checkpoint(4, 1) + event(5)) == [0, 1]


@pytest.mark.parametrize(
    "claim", [checkpoint(4, 4), checkpoint(4, 9), checkpoint(4, "3"), checkpoint(4, None)]
)
def test_impossible_checkpoint_proves_nothing(claim: bytes) -> None:
    """It is written before its batch, so it cannot know of itself or of what follows."""
    before = HEADER + checkpoint(0, -1) + event(1)

    assert seqs(before + b"bad\n" + event(3) + claim) == [0, 1]


def test_unfinished_checkpoint_proves_nothing() -> None:
    """A last line without its newline is torn itself."""
    before = HEADER + checkpoint(0, -1) + event(1)

    assert seqs(before + b"bad\n" + event(3) + checkpoint(4, 3)[:-1]) == [0, 1]


def test_bad_line_before_events_of_a_log_without_checkpoints_is_corruption() -> None:
    """The original writes none, so nothing proves that the later events were not committed."""
    error = corruption(HEADER + event(0) + b"bad\n" + event(2))

    assert (error.line, error.offset) == (3, len(HEADER + event(0)))
    assert seqs(HEADER + event(0) + b"bad\n" + b"bad\n") == [0]


def test_damaged_only_checkpoint_is_corruption() -> None:
    """The first batch is published whole; without its checkpoint the rest still counts."""
    corruption(HEADER + b"bad\n" + event(1))


def test_old_lines_again_are_a_torn_tail() -> None:
    """A tail that repeats an earlier block holds only checkpoints that know less."""
    batches = checkpoint(0, -1) + event(1) + checkpoint(2, 1) + event(3)

    assert seqs(HEADER + batches + batches) == [0, 1, 2, 3]


def test_other_line_breaks_do_not_split() -> None:
    """Only LF does: U+2028, U+2029 and U+0085 stand raw inside JSON text."""
    text = "a\u2028b\u2029c\x85d\x0be"
    image = HEADER + event_line(SessionEvent("x", text, seq=0, time=1))

    assert read_log(image, "f").events[0].data == text


def test_windows_line_ends_are_white_space() -> None:
    image = (HEADER + event(0) + event(1)).replace(b"\n", b"\r\n")

    assert seqs(image) == [0, 1]
    assert read_log(image, "f").size == len(image)


def test_packed_row_counts_as_its_events() -> None:
    row = (
        b'{"type":"text-chunks","seq0":0,"time0":1,"data":{"turn":0,"step":0,"index":0,'
        b'"dt":[1,1],"texts":["a","b","c"]}}\n'
    )

    assert seqs(HEADER + row + event(3)) == [0, 1, 2, 3]
    assert seqs(HEADER + row + event(1)) == [0, 1, 2]


def test_reason_never_quotes_the_log() -> None:
    """A log is somebody's conversation."""
    error = corruption(HEADER + b'{"secret":1\n' + event(1))

    assert "secret" not in str(error)
