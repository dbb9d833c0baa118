"""Train an Indonesian pipeline of tags and trees on ICON.

    python corpora/fetch.py indonesian
    python -m training.languages.indonesian

--record also scores the test set, and writes training/results/languages.json.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from spacy.language import Language
from spacy.symbols import ORTH
from spacy.util import compile_infix_regex, compile_suffix_regex

from spacy_structlearn.trees.brackets import unescape
from spacy_structlearn.trees.tree import Tree
from training.languages.common import Treebank, main

CLITIC = "nya"


def tokenize_as_icon(nlp: Language, trees: Sequence[Tree]) -> None:
    """Change the tokenizer of the pipeline to the conventions of ICON.

    Hyphens between letters are tokens (pulau - pulau), and so is the ending -nya (buku nya), except
    in words that the trees have as a whole at least as often (hanya).
    """
    whole: Counter[str] = Counter()
    parts: Counter[str] = Counter()
    for tree in trees:
        words = [unescape(word).lower() for word in tree.words()]
        whole.update(word for word in words if word.endswith(CLITIC) and word != CLITIC)
        parts.update(first + CLITIC for first, second in pairwise(words) if second == CLITIC)
    kept = sorted(word for word, count in whole.items() if count >= parts[word])
    tokenizer, defaults = nlp.tokenizer, nlp.Defaults
    tokenizer.rules = {text: rule for text, rule in tokenizer.rules.items() if "-" not in text}
    for word in kept:
        for form in (word, word.capitalize()):
            tokenizer.add_special_case(form, [{ORTH: form}])
    suffixes = [*defaults.suffixes, rf"(?<=\w\w){CLITIC}"]
    tokenizer.suffix_search = compile_suffix_regex(suffixes).search
    infixes = [*defaults.infixes, r"(?<=[^\W\d_])-(?=[^\W\d_])"]
    tokenizer.infix_finditer = compile_infix_regex(infixes).finditer


ICON = Treebank(
    corpus="indonesian",
    prefix="indonesian",
    lang="id",
    name="icon_sm",
    source={
        "name": "ICON, the Indonesian constituency treebank",
        "url": "https://github.com/aisingapore/seacorenlp-data",
        "license": "CC BY-SA 4.0",
        "author": "AI Singapore",
    },
    tokenizer=tokenize_as_icon,
)

if __name__ == "__main__":
    main(__doc__, [ICON])
