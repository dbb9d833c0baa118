"""The batcher of learners that want all data at once."""

from spacy.util import registry


def test_everything_is_one_batch_in_order_every_epoch():
    config = {"batcher": {"@batchers": "spacy_structlearn.full_batch.v1"}}
    batcher = registry.resolve(config)["batcher"]
    items = ["a", "b", "c"]
    (first,), (second,) = list(batcher(iter(items))), list(batcher(items))
    assert first == second == items
    assert first is not items
    assert list(batcher([])) == []
