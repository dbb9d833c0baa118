"""What every learner does that learns on from trained parameters; see `Estimator.adapter`."""

import numpy as np
import pytest
from contracts.cases import end, listed, trained

from spacy_structlearn.classification.classifier import Classifier
from spacy_structlearn.classification.stages import Stages
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.grammar.chart.decode import ChartParser
from spacy_structlearn.grammar.latent.model import LatentGrammar
from spacy_structlearn.pipeline.architectures import estimator
from spacy_structlearn.sequence.chain.decode import marginals
from spacy_structlearn.sequence.chain.model import ChainModel

REFUSALS = {"SL095", "SL408"}


def adapter(case, strength=1.0, data=None):
    data = case.other()[-1:] if data is None else data
    return estimator(case.settings).adapter(
        trained(case.name), data, case.labels, strength=strength
    )


@pytest.fixture(
    params=[c for c in listed("CASES") if c.settings.strengths], ids=lambda case: case.name
)
def any_case(request):
    return request.param


@pytest.fixture
def case(any_case):
    try:
        adapter(any_case)
    except StructlearnError as error:
        if error.code not in REFUSALS:
            raise
        pytest.skip("refuses to learn on")
    return any_case


def answers(parameters, data):
    """Probabilities of what is predicted for data."""
    if isinstance(parameters, ChainModel):
        return [marginals(parameters, part.columns, part.offsets) for part in data]
    if isinstance(parameters, Classifier):
        return [parameters.predict_proba(part.table) for part in data]
    if isinstance(parameters, Stages):
        pairs = [(stage, part) for part in data for stage, part in part.items()]
        known = [(parameters[stage], part) for stage, part in pairs if stage in parameters.stages]
        return [stage.predict_proba(part.table) for stage, part in known]
    if isinstance(parameters, LatentGrammar):
        return [
            parse.probabilities
            for parse in ChartParser(parameters).parse([t.words() for t in data])
        ]
    pytest.skip(f"nobody said what {type(parameters).__name__} predicts")


def difference(one, other):
    """The largest difference of probabilities; 1 if they are not of the same."""
    pairs = list(zip(one, other, strict=True))
    if any(a.shape != b.shape for a, b in pairs):
        return 1.0
    return max(np.abs(a - b).max(initial=0.0) for a, b in pairs)


def test_strengths(any_case):
    strengths = any_case.settings.strengths
    assert len(strengths) == len(set(strengths)) > 1
    assert min(strengths) > 0


def test_who_refuses(any_case):
    refuses = any_case.name == "joint" or "conditional" in any_case.name
    if refuses:
        with pytest.raises(StructlearnError) as error:
            adapter(any_case)
        assert error.value.code in REFUSALS
    else:
        assert adapter(any_case).n_iterations == 0


def test_old_parameters_are_left_alone(case):
    old = trained(case.name)
    before = old.to_bytes()
    new = adapter(case, case.settings.strengths[0]).run()
    assert old.to_bytes() == before
    assert new != old
    assert not new.is_empty
    assert type(new) is type(old)
    assert type(new).from_bytes(new.to_bytes()) == new
    assert adapter(case, case.settings.strengths[0]).run() == new


def test_a_strong_prior_keeps_the_predictions(case):
    data = case.data()
    before = answers(trained(case.name), data)
    far = [
        difference(before, answers(adapter(case, strength).run(), data)) for strength in (0.01, 1e9)
    ]
    assert far[1] < 1e-3
    assert far[1] < far[0]


def test_what_was_learned_is_learned_on_from(case):
    old = adapter(case).run()
    data, strength = case.data()[:1], case.settings.strengths[0]
    new = estimator(case.settings).adapter(old, data, case.labels, strength=strength).run()
    assert type(new).from_bytes(new.to_bytes()) == new


def test_resumed_is_the_same_bit_for_bit(case):
    trainer = adapter(case)
    states = [trainer.to_bytes()]
    while trainer.step():
        states.append(trainer.to_bytes())
    for state in states[:: max(1, len(states) // 2)]:
        fresh = adapter(case)
        assert fresh.resume(state)
        assert end(fresh) == trainer.parameters()
    assert not adapter(case, 2.0).resume(states[0])
    assert not adapter(case, data=case.data()[:2]).resume(states[0])
