"""What is registered is called at the end of its context, or before a signal ends the process."""

from functools import partial

from spacy_structlearn.cleanup import clean_up, ensured


def test_what_is_registered_last_comes_first():
    called = []
    with ensured(partial(called.append, 1)), ensured(partial(called.append, 2)):
        clean_up()
        assert called == [2, 1]
    assert called == [2, 1, 2, 1]
    clean_up()
    assert called == [2, 1, 2, 1]
