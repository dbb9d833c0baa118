"""Train an Indonesian pipeline of tags and trees on ICON.

    python corpora/fetch.py indonesian
    python -m training.languages.indonesian

--record also scores the test set, and writes training/results/languages.json.
"""

from training.languages.common import Treebank, main

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
)

if __name__ == "__main__":
    main(__doc__, [ICON])
