"""Encoders and the scorers that read their vectors."""

import numpy as np
from contracts.cases import Model
from encoder.tiny import tiny

from spacy_structlearn.encoder.scorer import Potentials, SiteScorer
from spacy_structlearn.encoder.session import Encoder


def scorer():
    draw = np.random.default_rng(0)
    made = SiteScorer.untrained(["", "A"], 6, 2, hidden=5)
    arrays = {name: draw.normal(size=own.shape) for name, own in made.arrays().items()}
    return made.replaced(**arrays)


STORED = [
    Model("encoder", tiny, {"epsilon": 1e-3}),
    Model("encoder_float", lambda: tiny(int8=False, relative=False), {"heads": 1}),
    Model("encoder_empty", Encoder, {"layers": 1}),
    Model("site_scorer", scorer, {"weights": (0.5, 2.0)}),
    Model("site_scorer_int8", lambda: scorer().replaced(storage="int8"), {"labels": ["", "B"]}),
    Model("potentials", lambda: Potentials({"tags": scorer()}), {"scorers": {}}),
]
