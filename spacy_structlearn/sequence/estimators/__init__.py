"""The learners of chains: objectives, base distributions and trainers."""
