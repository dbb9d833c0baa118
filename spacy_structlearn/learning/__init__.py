"""What all learners have in common: settings, training and stored models.

A learner is three classes with one name: `XSettings` says how it learns, `XTrainer` learns, and `X`
is what was learned. `settings`, `training` and `stored` have what they inherit.
"""
