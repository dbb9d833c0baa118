"""Cases of tests as tables of text."""


def cases(table: str) -> list[tuple[str, ...]]:
    """The rows of a table, their columns separated by arrows; indented lines continue a row."""
    rows = table.strip().replace("\n    ", " ").splitlines()
    return [tuple(row.split(" -> ")) for row in rows if not row.startswith("#")]
