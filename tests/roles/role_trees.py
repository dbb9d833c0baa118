"""Trees as roles are found in them, and any small tree at all."""

from hypothesis import strategies as st

from spacy_structlearn.roles.phrases import RoleTrees, candidates
from spacy_structlearn.trees.brackets import parse_tree
from spacy_structlearn.trees.nodes import Brackets
from spacy_structlearn.trees.tree import Tree

ASSUMED = (
    "(S (NP (DT The) (NN bill)) (VP (MD will) (VP (VB be) (VP (VBN assumed) (PP (IN by) (NP"
    " (NNP J.) (NNP S.)))))) (. .))"
)


def nodes_of(*trees: str | Tree, **settings) -> RoleTrees:
    trees = [parse_tree(tree) if isinstance(tree, str) else tree for tree in trees]
    return RoleTrees(Brackets.of(trees), **settings)


def texts(nodes: RoleTrees, numbers) -> list[str]:
    """The nodes as label and words: "NP The bill"."""
    words = list(nodes.words)
    return [" ".join([nodes.label(n), *words[nodes.starts[n] : nodes.stops[n]]]) for n in numbers]


def below(nodes: RoleTrees, predicate: int) -> list[int]:
    """The candidates of one predicate."""
    return candidates(nodes, [predicate]).nodes.tolist()


TAGS = ["NN", "VBD", "VBN", "CC", ",", "IN", "RP"]
LABELS = ["NP", "VP", "S", "PP", "SBAR"]


@st.composite
def trees(draw, depth=4) -> Tree:
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return Tree.leaf(draw(st.sampled_from(TAGS)), draw(st.sampled_from(["a", "be", "had"])))
    children = draw(st.lists(trees(depth - 1), min_size=1, max_size=4))
    return Tree(draw(st.sampled_from(LABELS)), children)
