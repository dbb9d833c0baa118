"""Settings of incremental sigmoid belief networks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from ..learning import settings as core
from ..learning.settings import Settings, Variants, setting
from ..words.signatures import spelling_constraints

FEATURES = "abcd"
MEANS = ("feed_forward", "mean_field")
REPORTS = 20  # maximum number of calls of `on_iteration` in an epoch


@dataclass(frozen=True, kw_only=True)
class ISBNSettings(Settings):
    """Incremental sigmoid belief network over left-corner derivations (Titov & Henderson 2007).

    A tree is built by a sequence of moves. The probability of each move is computed from a vector
    of means, which represents the moves before it. Trees are found by a beam search.
    """

    name = "ISBN"
    variants: ClassVar[Variants] = {"mean_field": {"means": "mean_field"}}
    attributes = ("ORTH", "TAG")

    means: str = setting(
        "feed_forward",
        choices=MEANS,
        help='How the means of a state are approximated. "mean_field" also uses the decisions '
        "within a move. It is several times slower and was more accurate in the paper.",
    )
    state_size: int = setting(
        40, ge=1, le=4096, help="Number of units of a state, 40 in the paper."
    )
    min_word_count: int = setting(
        10, ge=1, help="Words seen less often with a tag are unknown words of this tag."
    )
    min_unknown: int = setting(
        5,
        ge=0,
        help="Minimum number of tokens of unknown words of each tag in training. If there are "
        "fewer, the rarest words of the tag become unknown.",
    )
    min_chain_count: int = setting(
        50,
        ge=0,
        help="Unary chains of two labels, such as S over VP, are collapsed into one label if they "
        "occur at least this often. 0: no chains.",
    )
    signature: str = setting(
        "shape",
        help='Function that classifies unknown words: "shape", for any language, "english", or "" '
        "for no classes, as in the paper.",
    )
    normalization: str = setting(
        "typographic",
        help='Function that returns other spellings under which a word is looked up; "" for none.',
    )
    features: str = setting(
        FEATURES,
        help='Inputs of a state in addition to other states, some of "abcd": a for the last move, '
        "b for the top of the stack, c for the last word, d for the leftmost word below the top.",
    )
    max_iterations: int = core.max_iterations(20, ge=0)
    batch_size: int = setting(
        1,
        ge=1,
        help="Sentences in an update, which follows the gradient of their mean log-likelihood.",
    )
    optimizer: str = setting(
        "sgd",
        choices=("adam", "sgd"),
        help='"adam" needs a learn_rate of about 0.005, a weight_decay of 0.02 and a batch_size '
        "of 8.",
    )
    learn_rate: float = core.learn_rate(
        0.1, "Initial learning rate. It decreases linearly to 0 if `validation` is 0."
    )
    weight_decay: float = setting(
        1e-4,
        ge=0,
        le=1,
        help="Each update shrinks the weights by this share times learn_rate. With sgd, this "
        "maximises the mean log-likelihood of a sentence minus weight_decay |w|^2 / 2. It "
        "decreases as learn_rate does.",
    )
    dropout: float = setting(
        0.1, ge=0, lt=1, help="Share of the means that later states do not read in training."
    )
    averages: bool = setting(
        True, help="Use moving averages of the weights, over about the last tenth of the updates."
    )
    validation: float = setting(
        0.0,
        ge=0,
        lt=1,
        help="Share of the sentences that are held out and parsed after each pass. If the score "
        "is lower than before, learn_rate and weight_decay are halved and training continues from "
        "the best weights, as in the paper, until the rate is below 1/64 of the first.",
    )
    seed: int = core.seed()
    beam: int = setting(
        10,
        ge=1,
        le=4096,
        help="Maximum number of hypotheses after each word. It is stored with the weights.",
    )
    threads: int = core.threads()

    def constraints(self) -> Iterable[tuple[str, str, Any]]:
        in_order = "".join(name for name in FEATURES if name in self.features)
        yield "features", f"some of {FEATURES}, in this order", self.features == in_order
        if self.signature or self.normalization:  # looking for functions takes a while
            optional = ("signature", "normalization")
            yield from spelling_constraints(self.signature, self.normalization, optional)

    @property
    def n_reports(self) -> int:
        """Maximum number of calls of `on_iteration` and of steps before the last one."""
        return max(self.max_iterations * (REPORTS + 1) - 1, 0)
