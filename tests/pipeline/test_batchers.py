"""The batcher of learners that want all data at once."""

from spacy.util import registry

from spacy_structlearn.pipeline.batchers import create_full_batch


def test_everything_is_one_batch_in_order():
    assert list(create_full_batch()(iter(range(5)))) == [[0, 1, 2, 3, 4]]


def test_nothing_is_no_batch():
    assert list(create_full_batch()([])) == []


def test_a_config_can_name_it_and_use_it_every_epoch():
    config = {"batcher": {"@batchers": "spacy_structlearn.full_batch.v1"}}
    batcher = registry.resolve(config)["batcher"]
    items = ["a", "b"]
    (first,), (second,) = list(batcher(items)), list(batcher(items))
    assert first == second == items
    assert first is not items
