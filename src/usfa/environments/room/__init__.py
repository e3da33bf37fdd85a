"""The first-person room."""
