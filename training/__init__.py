"""Training of the default pipelines, the experiments, and the measurements."""

import os

# Before NumPy is imported: figures are CPU seconds of one thread.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
