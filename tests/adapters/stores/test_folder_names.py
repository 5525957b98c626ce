"""Session ids as folder names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedule_adapters.sessions import StoreError, StoreErrorCode
from schedule_adapters.stores.folder_names import canonical_id, decode_id, encode_id


@pytest.mark.parametrize(
    ("session_id", "name"),
    [
        ("basic/plain", "basic~002Fplain"),
        ("parent plain", "parent~0020plain"),
        ("Az09._-", "Az09._-"),
        (".", "~002E"),
        ("..", "~002E~002E"),
        ("...", "..."),
        ("~", "~007E"),
        ("é", "~00E9"),
        ("😀", "~D83D~DE00"),
        ("\ud83d", "~D83D"),
        ("\0", "~0000"),
    ],
)
def test_names_are_the_originals(session_id: str, name: str) -> None:
    """Its rule to the letter, or neither product would find the other's sessions."""
    assert encode_id(session_id) == name
    assert decode_id(name) == session_id


@given(st.text(st.characters(), min_size=1, max_size=30))
def test_every_id_round_trips(session_id: str) -> None:
    name = encode_id(session_id)

    assert decode_id(name) == canonical_id(session_id)
    assert "/" not in name
    assert name not in {".", ".."}
    assert name.isascii()


@given(st.text(max_size=300) | st.from_regex("(~[0-9A-Fa-f]{4}|[a.~])*", fullmatch=True))
def test_a_name_is_read_only_in_its_one_spelling(name: str) -> None:
    """What `encode_id` never writes stands for no session: no two folders are one id."""
    session_id = decode_id(name)

    assert session_id is None or encode_id(session_id) == name


@pytest.mark.parametrize("name", ["", ".", "..", "~", "~002e", "~0041", "a b", "a/b", "x" * 256])
def test_foreign_folder_names_stand_for_nothing(name: str) -> None:
    assert decode_id(name) is None


@pytest.mark.parametrize(
    ("session_id", "reason"), [("", "not empty"), ("x" * 256, "too long"), ("é" * 52, "too long")]
)
def test_impossible_ids_are_refused(session_id: str, reason: str) -> None:
    """Nothing to name, or more than the 255 bytes that a folder name may have."""
    with pytest.raises(StoreError, match=reason) as caught:
        encode_id(session_id)
    assert caught.value.code == StoreErrorCode.INVALID_SESSION_ID


def test_the_longest_id_is_taken() -> None:
    assert len(encode_id("é" * 51)) == 255
