"""Docs as a parser leaves them, and trained components."""

import spacy
from spacy.tokens import Doc

from spacy_structlearn.pipeline.extensions import set_spans
from spacy_structlearn.trees.brackets import parse_tree
from spacy_structlearn.trees.normalize import normalize
from spacy_structlearn.trees.tree import Tree


def parsed_doc(vocab, *trees, sents=True, space=()):
    """A Doc with the words, tags and brackets of trees, which may be given as text.

    sents: whether sentences are known. space: white space tokens go before the words with these
    numbers.
    """
    words, tags, starts, spans, n = [], [], [], [], 0
    for tree in trees:
        tree = normalize(parse_tree(tree) if isinstance(tree, str) else tree)
        at = []
        for word, tag in zip(tree.words(), tree.tags(), strict=True):
            starts.append(not at)
            if n in space:
                words.append("\n")
                tags.append("_SP")
                starts.append(False)
            at.append(len(words))
            words.append(word)
            tags.append(tag)
            n += 1
        spans += [(label, at[start], at[end - 1] + 1) for label, start, end in tree.spans()[1:]]
    doc = Doc(vocab, words=words, tags=tags, sent_starts=starts if sents else None)
    set_spans(doc, "constituents", spans)
    return doc


def cut_doc(vocab, *trees):
    """A Doc of one sentence that was cut, with these trees as its pieces."""
    doc = parsed_doc(vocab, Tree("S", [parse_tree(tree) for tree in trees]))
    set_spans(doc, "parse_failures", [("cut", 0, len(doc))])
    return doc


def fitted(factory, make_examples, config):
    """An English pipeline of one component, fitted to the examples that are made for it."""
    nlp = spacy.blank("en")
    component = nlp.add_pipe(factory, config=config)
    examples = make_examples(nlp)
    nlp.initialize(lambda: examples)
    component.fit(examples)
    return nlp
