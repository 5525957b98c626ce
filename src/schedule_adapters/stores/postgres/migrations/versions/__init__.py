"""The migrations, oldest first. One that was released is never edited; there is no way back."""
