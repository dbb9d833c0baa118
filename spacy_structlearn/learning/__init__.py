"""The base classes of all learners: settings, training and stored models.

A learner consists of three classes: the settings `XSettings`, the trainer `XTrainer`, and the model
`X`. Their base classes are in `settings`, `training` and `stored`.
"""
