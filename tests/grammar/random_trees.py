"""Random trees of a PCFG, drawn from the top down."""

from bisect import bisect
from collections import defaultdict

import numpy as np


class Node:
    """What a tree is made of. rule: "rule" or "word", and its number."""

    def __init__(self, state, rule, *children):
        self.state, self.rule, self.children = state, rule, children


def rules_of(pcfg):
    """The rules of each state: probability, name, children."""
    found = defaultdict(list)
    for r, (top, *below) in enumerate(pcfg.rules.tolist()):
        found[top].append((pcfg.p[r], ("rule", r), [x for x in below if x >= 0]))
    for x in np.flatnonzero(pcfg.lexical).tolist():
        found[x].append((pcfg.lexical[x], ("word", x), []))
    return found


def samples(pcfg, n, seed=0, most=10_000):
    """Random trees; those of more than `most` nodes are left out."""
    rules, random = rules_of(pcfg), np.random.default_rng(seed).random
    chances = {x: np.cumsum([p for p, *_ in own]).tolist() for x, own in rules.items()}
    tops = np.cumsum(pcfg.root).tolist()
    found = []
    for start in random(n):
        root = Node(bisect(tops, start * tops[-1]), None)
        stack, size = [root], 0
        while stack and size <= most:
            node = stack.pop()
            own = chances[node.state]
            choice = bisect(own, random() * own[-1])
            _, node.rule, children = rules[node.state][choice]
            node.children = [Node(x, None) for x in children]
            stack += node.children
            size += 1
        if not stack:
            found.append(root)
    return found


def all_trees(pcfg):
    """Every tree and its probability; of a grammar of finitely many."""
    rules = rules_of(pcfg)

    def below(x):
        for p, rule, children in rules[x]:
            parts = [(p, ())]
            for child in children:
                parts = [(a * b, (*o, t)) for a, o in parts for b, t in below(child)]
            yield from ((q, Node(x, rule, *nodes)) for q, nodes in parts)

    return [(p * q, tree) for x, p in enumerate(pcfg.root.tolist()) if p for q, tree in below(x)]
