from spacy_structlearn.evaluation.dependencies import attachment_score


def test_attachment_scores():
    gold = [(1, "nmod:poss"), (1, "root"), None, (1, "obj"), (0, "punct")]
    found = [(1, "nmod"), (1, "ROOT"), (1, "obl"), (1, "obl"), (1, "punct")]
    score = attachment_score([(gold, found)])
    assert score == (4, 3, 2)
    assert (score.uas, score.las) == (0.75, 0.5)
    assert attachment_score([(gold, found)], subtypes=True).labels == 1
    assert attachment_score([]).las == 0.0
