"""What the zeros of multi-scale grammars would save in inside passes, on the WSJ sample.

    python corpora/fetch.py wsj_sample
    python training/benchmarks/sparse_blocks.py
    python training/benchmarks/sparse_blocks.py --l1 2 --rounds 3

Petrov & Klein (2007, section 4.2): "It remains to be seen how this sparsity can be exploited, as
these zeros become ones when exponentiated". Where the weight of a production is exp of the sum of
its parameters at all scales, a parameter of zero at the finest scale means the weight of what it
refines. So with P_k the block of a rule at scale k, and up() what gives each production the value
of what it refines,

    P = up(D_0) + up(D_1) + ... + D_l,    D_k = P_k - up(P_(k-1)),

and D_k has an entry only where the parameter of scale k is other than zero. The inside pass of a
rule over the pairs of its children M becomes a sum over scales, where sums over siblings take the
place of M: sum_k up(D_k fold_k(M)).

A grammar is trained on the training trees (its state is kept in training/work/sparse_blocks, and
training that was broken goes on from there). What is timed is NumPy and SciPy, not the kernel: on
the forests of some training sentences, with their inside vectors, the rule's pairs M of all places
where it may stand are one matrix, and P M (dense, BLAS) is compared with the folds, the products of
sparse D_k in compressed rows, and the sums. This favours the sparse way, since a kernel cannot put
many places together; only rules with many places are timed, so that calls do not cost more than
work. Making M, which both need, is given apart. Multiplications are counted as well, over all
rules: with what pruning forbids ("masked", as the kernel skips it) and without.

A third way ("coarse") needs no sparse products: each rule has the block of the finest scale at
which one of its parameters is other than zero, and M is made of sums over siblings from the start.

In training/results/parsing_best.json under zeros.BASE-L1-ROUNDS:

scales           for each scale k: parameters, nonzero, share of those other than zero
finest_share     of binary productions at the finest scale: those that differ from what they refine
rules            how many rules have a parameter other than zero at scale k and at none after it
distinct         see grammar.analysis.Distinct
log_likelihood   of the training trees, given the words, in nats
seconds          pairs (making M), dense, sparse (folds, products and sums), coarse (M too, and
                 sums), evaluation (of the kernel and of all rules, inside, outside and counts, for
                 comparison); least of several runs
timed_share      the share of the rules that are timed in all operations
operations       pairs, dense, dense_masked, sparse, sparse_masked, folds, coarse
ratio            dense over the others, M included: sparse and coarse, of seconds; and of
                 operations, masked for sparse: operations_sparse, operations_coarse
error            largest difference between the ways, relative to the largest number of a rule

With the base "generative" blocks are not of this form, and only shares are measured.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "reproduce"))
from pk_discriminative import sample
from pk_models import CHECKPOINT_S, TABLE1, TREES, write
from recording import CORPORA, WORK, record

from spacy_structlearn.grammar.analysis import distinct_productions
from spacy_structlearn.grammar.conditional import MultiScale
from spacy_structlearn.grammar.forests import Forests
from spacy_structlearn.grammar.hierarchical import ConditionalGrammarTrainer, Objectives
from spacy_structlearn.grammar.model import Level
from spacy_structlearn.grammar.settings import BASES, LEVEL_STARTS, ConditionalGrammarSettings
from spacy_structlearn.grammar.symbols import TreebankData
from spacy_structlearn.trees.tree import Tree

RESULTS = "parsing_best"
RUNS = 3
MANY = 200  # places of a rule that is timed
Array = NDArray[np.floating]


# --- the grammar ----------------------------------------------------------------------------------
def trained(
    settings: ConditionalGrammarSettings, trees: Sequence[Tree], path: Path | None
) -> ConditionalGrammarTrainer:
    """The training of these settings, done. path: where its state is saved now and then."""
    trainer = settings.trainer(None, [trees])
    if path is not None and path.exists() and not trainer.resume(path.read_bytes()):
        print(f"{path.name} is of other trees or settings, and is made anew", file=sys.stderr)
    last = time.monotonic()

    def save() -> None:
        nonlocal last
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path, trainer.to_bytes())
            last = time.monotonic()

    with tqdm(desc="training", total=settings.n_reports, unit="it", mininterval=5) as bar:

        def on_iteration(number: int, phase: str, iteration: int, value: float) -> None:
            bar.set_postfix(round=number, phase=phase, loglik=f"{value:.0f}", refresh=False)
            bar.update()
            if time.monotonic() - last > CHECKPOINT_S:
                save()

        trainer.on_iteration = on_iteration
        while trainer.step():
            pass
    save()
    return trainer


def state_path(work: Path, settings: ConditionalGrammarSettings) -> Path:
    """Where the state of a training is kept."""
    return work / "sparse_blocks" / f"{settings.digest()[:12]}.state"


def shares(trainer: ConditionalGrammarTrainer) -> dict[str, Any]:
    """Of the last level: parameters of each scale, and what can be collapsed."""
    parameters, theta = last_level(trainer)
    found: dict[str, Any] = {"log_likelihood": trainer.records[-1].log_likelihood}
    for scale in range(parameters.n_scales):
        own = parameters.of_scale(scale, theta)
        nonzero = int(np.count_nonzero(own))
        share = nonzero / max(1, len(own))
        of_scale = {"parameters": len(own), "nonzero": nonzero, "share": share}
        found |= {f"scales.{scale}.{key}": value for key, value in of_scale.items()}
    finest = parameters.n_scales - 1
    own = parameters.of_scale(finest, theta)
    differs = parameters.scale_parts(finest, own != 0).binary
    has = parameters.scale_parts(finest, np.ones(len(own), np.bool_)).binary
    found["finest_share"] = float(differs.sum() / max(1, has.sum()))
    distinct = distinct_productions(parameters, theta)._asdict()
    return found | {f"distinct.{key}": value for key, value in distinct.items()}


def last_level(trainer: ConditionalGrammarTrainer) -> tuple[MultiScale, NDArray[np.float64]]:
    number = trainer.settings.rounds
    parameters = trainer.parameterization(number)
    assert isinstance(parameters, MultiScale)
    return parameters, trainer.trained[number]


# --- blocks and pairs -----------------------------------------------------------------------------
class Block(NamedTuple):
    """A rule's block: weights, float32 (n_parent, n_left * n_right); its corrections at each scale,
    (n_parent, n_left * n_right) of that scale; of each scale but the first, for each axis the
    numbers of what its substates are parts of; and the weights of all scales.
    """

    weights: Array
    corrections: list[csr_array]
    shapes: list[tuple[int, ...]]
    ancestors: list[list[NDArray[np.int64]]]
    scales: list[Array]

    @property
    def scale(self) -> int:
        """The finest with a correction."""
        return max((k for k, change in enumerate(self.corrections) if k == 0 or change.nnz))


def blocks_of(parameters: MultiScale, theta: NDArray[np.float64]) -> Iterator[Block]:
    """Of each binary rule."""
    levels, rules = parameters.levels, parameters.level.rules
    values = []
    for scale, sums in enumerate(parameters.sums(theta)):
        # Every production has a weight with the base "uniform".
        values.append(np.exp(parameters.scale_parts(scale, sums).binary.astype(np.float32)))
    for rule, symbols in enumerate(rules.binary.tolist()):
        corrections, shapes, ancestors, scales = [], [], [], []
        before: Array | None = None
        for level, weights in zip(levels, values, strict=True):
            shape = tuple(level.substates[symbols].tolist())
            block = weights[slice(*level.binary_offsets[rule : rule + 2])].reshape(shape)
            change = block
            if before is not None:
                above = [_ancestors(level, symbol) for symbol in symbols]
                ancestors.append(above)
                change = block - before[np.ix_(*above)]
            corrections.append(csr_array(change.reshape(shape[0], -1)))
            shapes.append(shape)
            scales.append(block.reshape(shape[0], -1))
            before = block
        yield Block(scales[-1], corrections, shapes, ancestors, scales)


def _ancestors(level: Level, symbol: int) -> NDArray[np.int64]:
    return level.ancestors[slice(*level.offsets[symbol : symbol + 2])].astype(np.int64)


class Places(NamedTuple):
    """Where a rule may stand in some forests: float32 (n_left, edges) and (n_right, edges), the
    inside vectors of its children; the first edge of each place; and bool, the substates that
    pruning allows of its parent (n_parent, places) and, at one of its edges, on the left.
    """

    left: Array
    right: Array
    starts: NDArray[np.int64]
    parent_mask: NDArray[np.bool_]
    left_mask: NDArray[np.bool_]

    def pairs(self) -> Array:
        """(n_left, n_right, places): what the rule's block is multiplied with."""
        return pairs_of(self.left, self.right, self.starts)


def pairs_of(left: Array, right: Array, starts: NDArray[np.int64]) -> Array:
    return np.add.reduceat(left[:, None] * right[None], starts, axis=2)


def places_of(
    forests: Forests, vectors: Callable[[int], tuple[NDArray[np.int64], Array] | None]
) -> dict[int, Places]:
    """By rule. vectors: of a sentence where the vector of each item begins, and the inside vectors;
    None if it has no derivation. The forests are used up.
    """
    inside = [vectors(sentence) for sentence in range(forests.n_sentences)]
    a = forests.release()
    masks = a["item_mask"]
    found: dict[int, list[list[Any]]] = defaultdict(lambda: [[], [], [], [], []])
    for sentence, scores in enumerate(inside):
        if scores is None:
            continue
        offsets, values = scores
        cells = a["sentence_cell"][sentence : sentence + 2]
        first = int(a["cell_item"][cells[0]])

        def vector(
            item: int,
            first: int = first,
            offsets: NDArray[np.int64] = offsets,
            values: Array = values,
        ) -> Array:
            return values[offsets[item - first] : offsets[item - first + 1]]

        for group in range(*a["cell_group"][cells].tolist()):
            left, right, starts, parents, lefts = found[int(a["group_rule"][group])]
            starts.append(len(left))
            allowed = 0
            for edge in range(*a["group_edge"][group : group + 2].tolist()):
                ends = int(a["edge_left"][edge]), int(a["edge_right"][edge])
                left.append(vector(ends[0]))
                right.append(vector(ends[1]))
                allowed |= int(masks[ends[0]])
            parent = int(a["group_parent"][group])
            parents.append(_bits(int(masks[parent]), len(vector(parent))))
            lefts.append(_bits(allowed, len(left[-1])))
    return {
        rule: Places(
            np.ascontiguousarray(np.stack(left, axis=1)),
            np.ascontiguousarray(np.stack(right, axis=1)),
            np.array(starts),
            np.stack(parents, axis=1),
            np.stack(lefts, axis=1),
        )
        for rule, (left, right, starts, parents, lefts) in found.items()
    }


def _bits(mask: int, n: int) -> NDArray[np.bool_]:
    return np.array([mask >> x & 1 for x in range(n)], dtype=np.bool_)


# --- both ways ------------------------------------------------------------------------------------
def dense(block: Block, pairs: Array) -> Array:
    """float32 (n_parent, places)."""
    return block.weights @ pairs.reshape(-1, pairs.shape[2])


def sparse(block: Block, pairs: Array) -> Array:
    """The same, by the corrections of all scales."""
    folded = [pairs]
    for _, left, right in reversed(block.ancestors):
        folded.insert(0, _folded(_folded(folded[0], left, 0), right, 1))
    out: Array | None = None
    for scale, (change, mine) in enumerate(zip(block.corrections, folded, strict=True)):
        if out is not None:
            out = out[block.ancestors[scale - 1][0]]
        if change.nnz or out is None:
            own = change @ mine.reshape(-1, mine.shape[2])
            out = own if out is None else np.add(out, own, out=out)
    assert out is not None
    return out


def coarse(block: Block, places: Places) -> Array:
    """The same, by the weights of the scale that the rule has, M included."""
    left, right = places.left, places.right
    scale = block.scale
    for _, *above in reversed(block.ancestors[scale:]):
        left, right = (_folded(x, a, 0) for x, a in zip((left, right), above, strict=True))
    pairs = pairs_of(left, right, places.starts)
    out = block.scales[scale] @ pairs.reshape(-1, pairs.shape[2])
    for parent, _, _ in block.ancestors[scale:]:
        out = out[parent]
    return out


def _folded(values: Array, ancestors: NDArray[np.int64], axis: int) -> Array:
    """Sums over siblings, which stand beside one another."""
    n = len(ancestors)
    if n == int(ancestors[-1]) + 1:
        return values
    if n % 2 == 0 and (ancestors == np.arange(n) // 2).all():
        return values[::2] + values[1::2] if axis == 0 else values[:, ::2] + values[:, 1::2]
    return np.add.reduceat(values, np.flatnonzero(np.diff(ancestors, prepend=-1)), axis=axis)


def operations(block: Block, places: Places) -> dict[str, float]:
    """Multiplications with an addition, for all places of a rule."""
    n_edges, n_places = places.left.shape[1], len(places.starts)
    n_parent, n_left, n_right = block.shapes[-1]
    # The kernel skips what is forbidden of the parent and on the left.
    parent, left = places.parent_mask, places.left_mask
    found = {
        "pairs": float(n_edges * n_left * n_right),
        "dense": float(n_places * n_parent * n_left * n_right),
        "sparse": float(n_places * sum(change.nnz for change in block.corrections)),
        "dense_masked": float(np.sum(parent.sum(axis=0) * left.sum(axis=0)) * n_right),
        "sparse_masked": 0.0,
        "folds": float(n_places * sum(a * b for _, a, b in block.shapes[1:])),
    }
    x, y, z = block.shapes[block.scale]
    # Sums over siblings are made for each edge here, and need not be: at most so many.
    sums = n_edges * (n_left + n_right) if block.scale < len(block.shapes) - 1 else 0
    found["coarse"] = float(n_edges * y * z + n_places * x * y * z + sums)
    for scale in reversed(range(len(block.corrections))):
        shape = block.shapes[scale]
        counts = (block.corrections[scale].toarray().reshape(shape) != 0).sum(axis=2)
        found["sparse_masked"] += float(np.einsum("xg,xy,yg->", parent, counts, left))
        if scale:
            above = block.ancestors[scale - 1]
            parent, left = (
                np.stack([mask[own == a].any(axis=0) for a in range(int(own[-1]) + 1)])
                for mask, own in ((parent, above[0]), (left, above[1]))
            )
    return found


def least_seconds(function: Callable[..., Any], *arguments: Any) -> float:
    """CPU seconds."""
    times = []
    for _ in range(RUNS):
        begun = time.process_time()
        function(*arguments)
        times.append(time.process_time() - begun)
    return min(times)


def timed(trainer: ConditionalGrammarTrainer, data: TreebankData) -> dict[str, Any]:
    """Seconds, operations and their ratios, over the forests of these sentences."""
    parameters, theta = last_level(trainer)
    number = trainer.settings.rounds
    settings = replace(trainer.settings, shards=1, solver="lbfgs", folder=None)
    settings = replace(settings, pruning="cached")
    whole = trainer.generative_grammar()
    with closing(Objectives(settings, data, whole, number, trainer.trained)) as objectives:
        objective = objectives.objective(number, trainer.trained)
        (forests,) = (shard.forests for shard in objectives.engine.shards)
        assert isinstance(forests, Forests)
        weights = objective.weights_at(theta)
        evaluation = least_seconds(forests.expected_counts, weights)

        def vectors(sentence: int) -> tuple[NDArray[np.int64], Array] | None:
            scores = forests.scores(sentence, weights)
            return None if scores is None else (scores[1], scores[3])

        places = places_of(forests, vectors)
    seconds: dict[str, float] = defaultdict(float)
    counts: dict[str, float] = defaultdict(float)
    rules = dict.fromkeys(range(parameters.n_scales), 0)
    error = many = 0.0
    for rule, block in enumerate(blocks_of(parameters, theta)):
        rules[block.scale] += 1
        if rule not in places:
            continue
        mine = places[rule]
        pairs = mine.pairs()
        wanted = dense(block, pairs)
        for found in (sparse(block, pairs), coarse(block, mine)):
            difference = float(np.abs(found - wanted).max())
            error = max(error, difference / max(float(wanted.max()), 1e-30))
        own = operations(block, mine)
        for key, value in own.items():
            counts[key] += value
        if len(mine.starts) < MANY:
            continue
        many += own["pairs"] + own["dense"]
        seconds["pairs"] += least_seconds(mine.pairs)
        seconds["dense"] += least_seconds(dense, block, pairs)
        seconds["sparse"] += least_seconds(sparse, block, pairs)
        seconds["coarse"] += least_seconds(coarse, block, mine)
    ratios = {
        "operations_sparse": (counts["pairs"] + counts["dense_masked"])
        / (counts["pairs"] + counts["folds"] + counts["sparse_masked"]),
        "operations_coarse": (counts["pairs"] + counts["dense"]) / counts["coarse"],
    }
    if many:
        both = seconds["pairs"] + seconds["dense"]
        ratios["sparse"] = both / (seconds["pairs"] + seconds["sparse"])
        ratios["coarse"] = both / seconds["coarse"]
    seconds["evaluation"] = evaluation
    parts = {"seconds": seconds, "operations": counts, "ratio": ratios, "rules": rules}
    figures: dict[str, Any] = {"sentences": data.n_trees, "error": error}
    figures["timed_share"] = many / (counts["pairs"] + counts["dense"])
    for part, values in parts.items():
        figures |= {f"{part}.{key}": value for key, value in values.items()}
    return figures


def measured(
    settings: ConditionalGrammarSettings, trees: Sequence[Tree], every: int, path: Path | None
) -> dict[str, Any]:
    """All figures of a grammar. every: of so many sentences, ordered by length, one is timed."""
    trainer = trained(settings, trees, path)
    figures = shares(trainer)
    if settings.base == "uniform":
        figures |= timed(trainer, sample(settings, trees, every))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpora", type=Path, default=CORPORA)
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--base", choices=BASES, default="uniform")
    parser.add_argument("--start", choices=LEVEL_STARTS, default="generative")
    parser.add_argument("--l1", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=TABLE1.rounds)
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--every", type=int, default=40, help="sentences that are timed")
    parser.add_argument("--threads", type=int, default=1, help="of the training")
    parser.add_argument("--limit", type=int, help="first trees only; nothing is kept")
    args = parser.parse_args()
    settings = TABLE1.part(
        ConditionalGrammarSettings,
        rounds=args.rounds,
        base=args.base,
        scales="all",
        start=args.start,
        l1=args.l1,
        l2=0.0,
        conditional_iterations=args.iterations,
        shards=4,
        threads=args.threads,
    )
    trees = TREES["wsj"](args.corpora, "train")
    path = None
    if args.limit:
        trees = trees[: args.limit]
    else:
        path = state_path(args.work, settings)
    figures = measured(settings, trees, args.every, path)
    strength = f"{args.l1:g}".replace(".", "_")
    name = f"zeros.{args.base}-{strength}-{args.rounds}"
    if not args.limit:
        record(RESULTS, {f"{name}.{key}": value for key, value in figures.items()})
    for key, value in figures.items():
        print(f"{name}.{key:32} {value:14,.4f}", flush=True)


if __name__ == "__main__":
    main()
