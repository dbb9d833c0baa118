"""Insert the words of NLTK's Penn Treebank sample into the PropBank skeletons of the WSJ. OntoNotes
splits hyphenated words into several tokens, so a dynamic program aligns the token sequences of a
sentence with the fewest differences of POS."""

import re
from itertools import combinations

# The tags of OntoNotes for separators in a word: hyphen, slash, dash.
SEPARATOR_TAGS = frozenset({"HYPH", "SYM", ":"})


def cuts(word: str) -> list[list[str]]:
    r"""Return all ways to split `word` at one or more of its separators `-`, `/`, `\/`."""
    parts = re.split(r"(\\/|[-/])", word)
    separators = range(1, len(parts), 2)
    ways = []
    for number in range(1, len(separators) + 1):
        for chosen in combinations(separators, number):
            starts = [0, *(s + 1 for s in chosen)]
            pieces = ["".join(parts[starts[0] : chosen[0]])]
            for separator, end in zip(chosen, [*chosen[1:], len(parts)], strict=True):
                pieces += [parts[separator], "".join(parts[separator + 1 : end])]
            if all(pieces):
                ways.append(pieces)
    return ways


def align(tokens: list[tuple[str, str]], tags: list[str]) -> tuple[list[str], int] | None:
    """Return words for `tags` from `tokens` (tag, word), which can be split, and the minimal number
    of unsplit words with another tag. None if the numbers cannot be equal."""
    best = {0: (0, [])}  # tags covered -> (cost, pieces of each token so far)
    for tag, word in tokens:
        ways = [[word], *(cuts(word) if len(tags) > len(tokens) else [])]
        following: dict[int, tuple[int, list[list[str]]]] = {}
        for start, (cost, pieces) in best.items():
            for way in ways:
                end = start + len(way)
                if end > len(tags) or not SEPARATOR_TAGS.issuperset(tags[start + 1 : end : 2]):
                    continue
                total = cost + (len(way) == 1 and tags[start] != tag)
                if end not in following or total < following[end][0]:
                    following[end] = (total, [*pieces, way])
        best = following
    if len(tags) not in best:
        return None
    cost, pieces = best[len(tags)]
    return [word for way in pieces for word in way], cost
