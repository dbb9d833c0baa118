"""The parameters of EVALB (Sekine & Collins 1997), the standard program for scores of brackets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..trees.normalize import strip_function


@dataclass(frozen=True)
class EvalbParameters:
    """The parameter file of EVALB. All properties of a treebank are in these parameters.

    deleted: DELETE_LABEL. Leaves with these tags are deleted. Phrases with these labels lose their
        bracket, and phrases without remaining words are deleted.
    uncounted: DELETE_LABEL_FOR_LENGTH. Tags that do not count in the length of a sentence (traces).
    equal_labels: EQ_LABEL. Groups of equivalent labels; the first one represents the group.
    separators: Labels of phrases are cut at the first of these characters (`strip_function`).
    """

    deleted: frozenset[str] = frozenset()
    uncounted: frozenset[str] = frozenset()
    equal_labels: tuple[tuple[str, ...], ...] = ()
    separators: str = "-="

    @cached_property
    def _same(self) -> dict[str, str]:
        """Map each of `equal_labels` to the label that represents it."""
        return {label: group[0] for group in reversed(self.equal_labels) for label in group}

    @cached_property
    def _deleted_phrases(self) -> frozenset[str]:
        return frozenset(map(self.same, self.deleted))

    def same(self, label: str) -> str:
        """Return the label that represents the equivalent labels."""
        return self._same.get(label, label)

    def bracket_label(self, label: str) -> str | None:
        """Return the label under which a phrase is scored, or None if its bracket is deleted."""
        label = self.same(strip_function(label, self.separators))
        return None if label in self._deleted_phrases else label


COLLINS = EvalbParameters(
    deleted=frozenset({"TOP", "-NONE-", ",", ":", "``", "''", "."}),
    uncounted=frozenset({"-NONE-"}),
    equal_labels=(("ADVP", "PRT"),),
)
