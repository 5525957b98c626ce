"""Text measured in the cells of a terminal."""

import unicodedata


def cells(text: str) -> int:
    """How many cells a text takes: wide characters two, marks that combine none."""
    return sum(_cells_of(character) for character in text)


def fit(text: str, width: int) -> str:
    """The text in exactly that many cells: filled with spaces, or cut with an ellipsis."""
    if cells(text) > width:
        taken, kept = 1, ""
        for character in text:
            taken += _cells_of(character)
            if taken > width:
                break
            kept += character
        text = kept + "…"
    return text + " " * (width - cells(text))


def _cells_of(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1
