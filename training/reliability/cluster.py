"""Compare training on a Ray cluster and in threads: results, traffic and speed.

    pip install 'spacy-structlearn[ray]'
    python corpora/fetch.py conll2000 wsj_sample
    python -m training.reliability.cluster

The cluster has two nodes with one core each, on this machine, and one actor per shard. It trains a
CRF of NP chunks on CoNLL-2000, and a latent grammar by EM and a discriminative grammar on the WSJ
sample. Each is trained in threads and on the cluster, where one actor is killed during training. In
training/results/reliability.json, under `ray`:

max_abs_difference    maximum difference of parameters between both, over all models
deaths                number of killed actors
sentences_per_s.N     sentences times evaluations of the CRF per second (wall) with N actors,
                      medians of alternating rounds
sentences_per_s.threads.N  the same for N threads of this process
speedup               two actors over one
bytes_per_iteration   sent to and received from two actors by an evaluation of the CRF
bytes_per_parameter   the same per parameter of the model
recovery_s            from the death of an actor to the requested sum
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
EVALUATION_S = 3.0  # seconds of evaluations for a mean
Make = Callable[[bool, MakeEngine], Any]  # makes a trainer, with threads or without


@contextmanager
def two_machines() -> Iterator[None]:
    """Start a cluster of two nodes with one core each."""
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
    """Serialize functions of this module by value, because actors cannot import it."""
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])


def process(shard: Any) -> int:
    """Return the process id of the owner of a shard."""
    return os.getpid()


def difference(one: Any, other: Any) -> float:
    """Return the maximum absolute difference between two models, or infinity if others differ."""
    mine, its = (list(arrays(model.to_bytes())) for model in (one, other))
    if [array.shape for array in mine] != [array.shape for array in its]:
        return np.inf
    gaps = [0.0]
    for array, wanted in zip(mine, its, strict=True):
        differ = array != wanted  # both can be infinite
        gaps.append(float(np.abs(array[differ] - wanted[differ]).max(initial=0.0)))
    return max(gaps)


def engine_of(trainer: Any) -> RayEngine | None:
    """Return the current Ray engine of a trainer."""
    for owner in ("_objective", "_objectives", "_derivations"):
        found = getattr(getattr(trainer, owner, None), "engine", None)
        if isinstance(found, RayEngine):
            return found
    inner = getattr(trainer, "_generative", None)
    return None if inner is None else engine_of(inner)


def finished(trainer: Any, name: str, kill_at: int | None = None) -> tuple[Any, int]:
    """Train to the end. Return the model and the number of killed actors. kill_at: a step."""
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
    """Return a trainer. threads: whether two threads share the shards."""
    settings = replace(settings, threads=SHARDS if threads else 1)
    parameters = settings.initialize([data], ["NP"])
    return settings.trainer(parameters, [data], make_engine=make_engine)


def grammar_trainer(settings: Any, trees: list, threads: bool, make_engine: MakeEngine) -> Any:
    """Return a trainer of a grammar, see `chain_trainer`."""
    settings = replace(settings, threads=SHARDS if threads else 1)
    return settings.trainer(None, [trees], make_engine=make_engine)


def compare(makers: dict[str, Make]) -> dict[str, float]:
    """Train each model in threads and on the cluster, and compare the results."""
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
    """Return speed and traffic of evaluations of a CRF."""
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
                    # Parameters are sent to each machine, and each shard returns a gradient.
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
    """Return the number of bytes of a value as sent by Ray, with separate arrays."""
    from ray import cloudpickle

    buffers: list[pickle.PickleBuffer] = []
    rest = cloudpickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return len(rest) + sum(buffer.raw().nbytes for buffer in buffers)


def evaluation_s(objective: Any) -> float:
    """Return the seconds of an evaluation."""
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
    parser.add_argument("--sentences", type=int, default=N_TRAIN, help="number from CoNLL-2000")
    parser.add_argument("--trees", type=int, help="number from the WSJ sample; default: all")
    parser.add_argument("--rounds", type=int, default=5, help="number of alternating rounds")
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
