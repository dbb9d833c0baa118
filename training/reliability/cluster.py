"""Training on a Ray cluster and in threads: the same optimum, what travels, and how much faster.

    pip install 'spacy-structlearn[ray]'
    python corpora/fetch.py conll2000 wsj_sample
    python -m training.reliability.cluster

The cluster has two machines of one core each, both of them this one; every shard is in an actor.
What is trained: a CRF of NP chunks on CoNLL-2000, a latent grammar by EM and a discriminative one
on the WSJ sample. Each is trained in threads and on the cluster, where one actor is killed on the
way. In training/results/reliability.json, under `ray`:

max_abs_difference    of all parameters between the two, over everything that was trained
deaths                of actors on the way
sentences_per_s.N     sentences times evaluations a second (wall) of the CRF with N actors, medians
                      of rounds of both in turn
sentences_per_s.threads.N  the same of N threads of this process
speedup               of two actors over one
bytes_per_iteration   what an evaluation of the CRF sends to and receives from two actors
bytes_per_parameter   the same for each parameter of the model
recovery_s            from the death of an actor to the sum that it was asked for
"""

from __future__ import annotations

import argparse
import os
import pickle
import signal
import statistics
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from operator import methodcaller
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from tqdm import tqdm

from spacy_structlearn.grammar.discriminative.settings import ConditionalGrammarSettings
from spacy_structlearn.grammar.latent.settings import LatentGrammarSettings
from spacy_structlearn.parallel.cluster import RayEngine, ray_cluster
from spacy_structlearn.parallel.shards import MakeEngine, make_engine
from spacy_structlearn.sequence.data import SequenceData, concatenate
from spacy_structlearn.sequence.settings import LikelihoodSettings
from training.common.conll2000 import N_TRAIN, ours_data, ours_settings, read
from training.common.recording import CORPORA, record, show
from training.common.treebanks import wsj_trees
from training.reliability.kills import arrays

RESULTS = "reliability"
SHARDS = 2
EVALUATION_S = 3.0  # seconds of evaluations, of which the mean is taken
Make = Callable[[bool, MakeEngine], Any]  # a trainer, of threads or not


@contextmanager
def two_machines() -> Iterator[None]:
    """A cluster of two machines of one core each."""
    import ray
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    head = {"num_cpus": 1, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    by_value()
    try:
        yield
    finally:
        ray.shutdown()
        cluster.shutdown()


def by_value() -> None:
    """Let actors have functions of this module, which they cannot import."""
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])


def process(shard: Any) -> int:
    """The number of the process that has a shard."""
    return os.getpid()


def difference(one: Any, other: Any) -> float:
    """The greatest absolute difference between the numbers of two models; infinite if of others."""
    mine, its = (list(arrays(model.to_bytes())) for model in (one, other))
    if [array.shape for array in mine] != [array.shape for array in its]:
        return np.inf
    gaps = [0.0]
    for array, wanted in zip(mine, its, strict=True):
        differ = array != wanted  # infinities may be the same
        gaps.append(float(np.abs(array[differ] - wanted[differ]).max(initial=0.0)))
    return max(gaps)


def engine_of(trainer: Any) -> RayEngine | None:
    """The engine on the cluster that a trainer has now."""
    for owner in ("_objective", "_objectives", "_derivations"):
        found = getattr(getattr(trainer, owner, None), "engine", None)
        if isinstance(found, RayEngine):
            return found
    inner = getattr(trainer, "_generative", None)
    return None if inner is None else engine_of(inner)


def finished(trainer: Any, name: str, kill_at: int | None = None) -> tuple[Any, int]:
    """The model once training has ended, and how many actors died. kill_at: a step."""
    killed, steps, more = 0, 0, True
    with tqdm(desc=name, unit=" steps", disable=None) as progress:
        while more:
            engine = engine_of(trainer)
            if kill_at is not None and engine is not None and steps >= kill_at and not killed:
                os.kill(engine.map(process)[-1], signal.SIGKILL)
                killed = 1
            more = trainer.step()
            steps += 1
            progress.update()
            progress.set_postfix(loss=f"{trainer.value:.4f}")
    return trainer.parameters(), killed


def chain_trainer(
    settings: LikelihoodSettings, data: SequenceData, threads: bool, make_engine: MakeEngine
) -> Any:
    """threads: whether two of them share the shards."""
    settings = replace(settings, threads=SHARDS if threads else 1)
    parameters = settings.initialize([data], ["NP"])
    return settings.trainer(parameters, [data], make_engine=make_engine)


def grammar_trainer(settings: Any, trees: list, threads: bool, make_engine: MakeEngine) -> Any:
    """See `chain_trainer`."""
    settings = replace(settings, threads=SHARDS if threads else 1)
    return settings.trainer(None, [trees], make_engine=make_engine)


def compare(makers: dict[str, Make]) -> dict[str, float]:
    """Train each in threads and on the cluster."""
    gaps, deaths = [], 0
    for name, make in makers.items():
        wanted, _ = finished(make(True, make_engine), f"{name}, threads")
        with ray_cluster(workers=SHARDS) as engines:
            trainer = make(False, engines)
            found, killed = finished(trainer, f"{name}, Ray", kill_at=2)
            if not killed:
                raise SystemExit(f"{name}: training ended before an actor could be killed")
            engine = engine_of(trainer)
            if engine is not None:
                engine.close()
        deaths += killed
        gaps.append(difference(found, wanted))
    return {"ray.max_abs_difference": max(gaps), "ray.deaths": deaths}


def speed(settings: LikelihoodSettings, data: SequenceData, rounds: int) -> dict[str, float]:
    """Of evaluations of a CRF, and what they send."""
    import ray

    settings = replace(settings, shards=SHARDS)
    model = settings.initialize([data], ["NP"])
    n_sentences = len(data.offsets) - 1
    per_s: dict[str, list[float]] = {}
    figures: dict[str, float] = {}

    def objective(threads: int = 1, make_engine: MakeEngine = make_engine) -> Any:
        return settings.objective_kind(
            model,
            *concatenate([data], model.labels),
            l2=settings.l2,
            threads=threads,
            shards=settings.shards,
            make_engine=make_engine,
        )

    for _ in tqdm(range(rounds), desc="evaluations", unit=" rounds", disable=None):
        for workers in range(1, SHARDS + 1):
            with closing(objective(workers)) as threads:
                per_s.setdefault(f"threads.{workers}", []).append(
                    n_sentences / evaluation_s(threads)
                )
            with (
                ray_cluster(workers=workers) as engines,
                closing(objective(make_engine=engines)) as actors,
            ):
                per_s.setdefault(str(workers), []).append(n_sentences / evaluation_s(actors))
                engine = actors.engine
                assert isinstance(engine, RayEngine)
                theta = actors.parameters()
                actors.value_and_grad(theta)
                if workers == SHARDS:
                    # The parameters go to each machine; each shard returns a gradient.
                    results = engine.map(methodcaller("value_and_grad", theta))
                    sent = len(ray.nodes()) * size_of(theta) + sum(map(size_of, results))
                    figures["ray.bytes_per_iteration"] = sent
                    figures["ray.bytes_per_parameter"] = sent / len(theta)
                    os.kill(engine.map(process)[0], signal.SIGKILL)
                    begin = perf_counter()
                    actors.value_and_grad(theta)
                    figures["ray.recovery_s"] = perf_counter() - begin
    medians = {name: statistics.median(values) for name, values in per_s.items()}
    figures |= {f"ray.sentences_per_s.{name}": value for name, value in medians.items()}
    return figures | {"ray.speedup": medians[str(SHARDS)] / medians["1"]}


def size_of(value: Any) -> int:
    """The number of bytes of a value as Ray sends it, with separate arrays."""
    from ray import cloudpickle

    buffers: list[pickle.PickleBuffer] = []
    rest = cloudpickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return len(rest) + sum(buffer.raw().nbytes for buffer in buffers)


def evaluation_s(objective: Any) -> float:
    """Seconds of an evaluation."""
    theta = objective.parameters()
    objective.value_and_grad(theta)
    begin, n = perf_counter(), 0
    while perf_counter() < begin + EVALUATION_S:
        objective.value_and_grad(theta)
        n += 1
    return (perf_counter() - begin) / n


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpora", type=Path, default=CORPORA)
    parser.add_argument("--sentences", type=int, default=N_TRAIN, help="of CoNLL-2000")
    parser.add_argument("--trees", type=int, help="of the WSJ sample; all if not given")
    parser.add_argument("--rounds", type=int, default=5, help="of both in turn")
    arguments = parser.parse_args()
    data = ours_data(read(arguments.corpora / "conll2000" / "train.txt.gz", arguments.sentences))
    trees = list(wsj_trees(arguments.corpora, "train"))[: arguments.trees]
    chains = replace(ours_settings(), shards=SHARDS)
    rounds = LatentGrammarSettings(rounds=3, shards=SHARDS)
    conditional = ConditionalGrammarSettings(
        rounds=1, shards=SHARDS, l1=0.0, l2=1.0, conditional_iterations=15
    )
    makers: dict[str, Make] = {
        "CRF": partial(chain_trainer, chains, data),
        "EM": partial(grammar_trainer, rounds, trees),
        "conditional": partial(grammar_trainer, conditional, trees),
    }
    with two_machines():
        figures = speed(chains, data, arguments.rounds)
        figures |= compare(makers)
    record(RESULTS, figures)
    show(figures)


if __name__ == "__main__":
    main()
