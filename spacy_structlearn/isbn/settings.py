"""Settings of incremental sigmoid belief networks; `training` says how they are learned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..learning import settings as core
from ..learning.settings import Settings, setting
from ..parallel.shards import MakeEngine, make_engine
from ..trees.tree import Tree
from ..words.signatures import spelling_constraints

if TYPE_CHECKING:
    from .model import ISBN
    from .training import Data, ISBNTrainer

FEATURES = "abcd"
MEANS = ("feed_forward", "mean_field")
SEARCHES = ("best_first", "word_synchronous")
REPORTS = 20  # calls of `on_iteration` in an epoch, at most


@dataclass(frozen=True, kw_only=True)
class ISBNSettings(Settings):
    """Incremental sigmoid belief network over left-corner derivations (Titov & Henderson 2007).

    A tree is built move by move, and the probability of a move follows from a vector of means that
    sums up the moves before, where a grammar sees a rule. Trees are found by a search with a beam.
    """

    name = "ISBN"
    attributes = ("ORTH", "TAG")

    means: str = setting(
        "feed_forward",
        choices=MEANS,
        help='How the means of a state are found. "mean_field" takes in what has just been '
        "decided, within a move too; it is several times slower and, in the paper, the better one.",
    )
    state_size: int = setting(40, ge=1, help="Units of a state, 40 in the paper.")
    min_word_count: int = setting(
        10, ge=1, help="Words seen less often with a tag are unknown words of this tag."
    )
    min_unknown: int = setting(
        5,
        ge=0,
        help="Each tag has at least this many unknown words in training, or its rarest words "
        "become unknown.",
    )
    min_chain_count: int = setting(
        50,
        ge=0,
        help="Two labels, one right above the other, such as S over VP, become one label if they "
        "are seen at least this often; 0: none do.",
    )
    signature: str = setting(
        "shape",
        help='How unknown words are told apart: "shape", for any language, "english", or "" for '
        "not at all, as in the paper.",
    )
    normalization: str = setting(
        "typographic", help='Other spellings under which a word is looked up; "" for none.'
    )
    features: str = setting(
        FEATURES,
        help='What a state reads beside other states, some of "abcd": a for the last move, b for '
        "the top of the stack, c for the last word, d for the first word below the top.",
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
        help='"adam" wants a learn_rate of about 0.005, a weight_decay of 0.02 and 8 sentences in '
        "an update.",
    )
    learn_rate: float = setting(
        0.1,
        gt=0,
        help="Length of the first steps. It falls to 0 in a straight line if `validation` is 0.",
    )
    weight_decay: float = setting(
        1e-4,
        ge=0,
        help="Weights shrink by learn_rate times this of themselves in an update. With sgd the "
        "mean log-likelihood of a sentence less weight_decay |w|^2 / 2 is maximised. It falls as "
        "learn_rate does.",
    )
    dropout: float = setting(
        0.1, ge=0, lt=1, help="Share of the means that later states do not read in training."
    )
    grad_clip: float = setting(
        5.0, ge=0, help="Longest gradient of an update; longer ones are shortened; 0: none are."
    )
    averages: bool = setting(
        True,
        help="Learn moving averages of the weights, in effect over the last tenth of the updates.",
    )
    validation: float = setting(
        0.0,
        ge=0,
        lt=1,
        help="Share of the sentences that is held out and parsed after each pass. Where that goes "
        "worse than before, learn_rate and weight_decay are halved and the best weights are taken "
        "again, as in the paper, until the rate is below 1/64 of the first. 0: none is.",
    )
    seed: int = core.seed()
    beam: int = setting(
        10,
        ge=1,
        help="Hypotheses that go on from each word to the next. It is stored with what is learned.",
    )
    branching: int = setting(
        10, ge=1, help="Moves of each hypothesis that are followed. It is stored as the beam is."
    )
    search: str = setting(
        SEARCHES[0],
        choices=SEARCHES,
        help="Which hypotheses go on first: the best, as in the paper, or those of as many moves "
        "together. It is stored as the beam is.",
    )
    shards: int = setting(
        2,
        ge=1,
        help="Parts into which a batch is cut. Results for different numbers differ by rounding "
        "errors.",
    )
    threads: int = core.threads()

    def constraints(self) -> Iterable[tuple[str, str, Any]]:
        in_order = "".join(name for name in FEATURES if name in self.features)
        yield "features", f"some of {FEATURES}, in this order", self.features == in_order
        optional = ("signature", "normalization")
        yield from spelling_constraints(self.signature, self.normalization, optional)

    @property
    def n_reports(self) -> int:
        """Calls of `on_iteration` and steps after which there is another, at most."""
        return max(self.max_iterations * (REPORTS + 1) - 1, 0)

    def empty(self) -> ISBN:
        """A network without symbols."""
        from .model import ISBN

        return ISBN.empty()

    def initialize(
        self,
        data: Sequence[Tree | Sequence[Tree]],
        labels: Sequence[str] = (),
        previous: ISBN | None = None,
    ) -> ISBN:
        """A network of the symbols of the trees, with random weights.

        data: normalised trees, or lists of them. Labels and what was learned before have no part in
        it. Raises StructlearnError for no trees, or for what is not a tree.
        """
        from .derivation import symbols_of
        from .model import ISBN
        from .training import trees_of

        symbols, log_probs = symbols_of([tree for part in data for tree in trees_of(part)], self)
        return ISBN.initialize(symbols, log_probs, self)

    def trainer(
        self,
        parameters: ISBN | None,
        data: Data,
        *,
        validation_trees: Sequence[Tree] | None = None,
        make_engine: MakeEngine = make_engine,
    ) -> ISBNTrainer:
        """Training from these parameters on; None, or empty ones: from those of `initialize`.

        data: normalised trees, lists of them, or derivations of the symbols of `parameters`. Their
        order makes no difference. validation_trees: what is parsed after each pass, in place of the
        share `validation` of `data`.
        Raises StructlearnError if nothing of it can be trained on.
        """
        from .training import ISBNTrainer

        if parameters is None or parameters.is_empty:
            parameters = self.initialize(data)
        return ISBNTrainer(
            self, parameters, data, validation_trees=validation_trees, make_engine=make_engine
        )
