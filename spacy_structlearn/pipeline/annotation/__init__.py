"""Annotated sentences as plain data, and corrections of them by which they are parsed again."""
