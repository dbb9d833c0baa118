"""What subcategories are used for."""

from collections import Counter

import pytest
import treebanks
from test_merging import generative, toy_data, weighted

from spacy_structlearn.grammar.analysis import (
    Production,
    Subcategory,
    split_categories,
    subcategories,
    table,
    uses,
)
from spacy_structlearn.grammar.em import treebank_grammar
from spacy_structlearn.grammar.symbols import binarize


def leaves(trees):
    return Counter((leaf.label, leaf.word) for tree in trees for leaf in tree.leaves())


def test_words_of_an_unsplit_grammar_are_those_of_the_treebank():
    trees = treebanks.sample()
    data = binarize(trees)
    grammar = treebank_grammar(data)
    wanted, found = leaves(trees), uses(grammar, data)
    for tag in grammar.symbols.tags:
        (part,) = subcategories(grammar, data, found, tag, top=10_000)
        assert part.name == f"{tag}-0"
        counts = {word: n for (other, word), n in wanted.items() if other == tag}
        mine = {production.text: production.count for production in part.productions}
        assert mine.keys() == counts.keys()
        for word, count in counts.items():
            assert mine[word] == pytest.approx(count, rel=1e-5)
        assert part.count == pytest.approx(sum(counts.values()), rel=1e-5)
        ranks = [production.count for production in part.productions]
        assert ranks == sorted(ranks, reverse=True)


@pytest.mark.parametrize("changed", [False, True])
def test_counts_of_substates_add_up_to_those_of_symbols(changed):
    data = toy_data()
    grammar = weighted(generative()) if changed else generative()
    found = uses(grammar, data)
    for symbol, name in enumerate(grammar.symbols.names):
        parts = [p for p in subcategories(grammar, data, found, name, top=2) if "-" in p.name]
        assert [part.name for part in parts] == [
            f"{name}-{i}" for i in range(grammar.levels[1].substates[symbol])
        ]
        total = sum(part.count for part in parts)
        assert total == pytest.approx(data.occurrences[symbol], rel=1e-4)
        assert all(len(part.productions) <= 2 for part in parts)


def test_productions_and_their_weights():
    data = toy_data()
    grammar = weighted(generative())
    level, names = grammar.levels[1], grammar.symbols.names
    parts = list(subcategories(grammar, data, uses(grammar, data), "P", top=1000))
    places = {text: i for i, text in enumerate(names)}
    checked = 0
    for index, part in enumerate(parts):
        for production in part.productions:
            children = [child.rsplit("-", 1) for child in production.text.split(" ")]
            rule = [places["P"], *(places[child] for child, _ in children)]
            at = (index, *(int(x) for _, x in children))
            rules = grammar.rules.binary if len(rule) == 3 else grammar.rules.unary
            block_of = level.binary_block if len(rule) == 3 else level.unary_block
            block = block_of(rules.tolist().index(rule))
            assert production.weight == pytest.approx(block[at])
            checked += 1
    assert checked > 2


def test_the_root_has_productions_too():
    data, grammar = toy_data(), weighted(generative())
    # Where words stand beside one another under the root, it is inserted as a phrase, too.
    *inserted, root = subcategories(grammar, data, uses(grammar, data), "R", top=100)
    assert [part.name for part in inserted] == ["R-0", "R-1"]
    assert root.name == "R"
    assert root.count == pytest.approx(data.n_trees, rel=1e-4)
    level = grammar.levels[1]
    wanted = {
        f"{grammar.symbols.names[symbol]}-{index}": float(weight)
        for rule, symbol in enumerate(grammar.rules.root)
        for index, weight in enumerate(level.root_block(rule))
    }
    assert {p.text: p.weight for p in root.productions}.items() <= wanted.items()


def test_an_earlier_level():
    data, grammar = toy_data(), generative()
    parts = list(subcategories(grammar, data, uses(grammar, data, 0), "N"))
    assert len(parts) == 1
    assert parts[0].count == pytest.approx(data.occurrences[data.symbols.tag_index["N"]], rel=1e-5)
    assert not list(subcategories(grammar, data, uses(grammar, data), "none"))


def test_other_trees_are_refused():
    with pytest.raises(ValueError, match="other symbols"):
        uses(generative(), binarize(treebanks.sample()))


def test_split_categories():
    grammar = generative()
    level, names = grammar.levels[1], grammar.symbols.names
    found = split_categories(grammar)
    wanted = [name for name, n in zip(names, level.substates, strict=True) if n > 1]
    assert [*found.tags, *found.phrases, *found.intermediates] == wanted
    assert set(found.tags) <= set(grammar.symbols.tags)
    assert found.intermediates
    assert all(name[0] == "@" for name in found.intermediates)
    assert not any(split_categories(grammar, 0))


def test_table():
    parts = [
        Subcategory("DT-0", 3.0, [Production("the", 2.0, 9.5), Production("The", 1.0, 0.1)]),
        Subcategory("DT-1", 1.0, []),
    ]
    assert table(parts) == "DT-0   75%  the 0.67, The 0.33\nDT-1   25%  "
    assert table([]) == ""
