"""Train the default pipeline: `python -m training.train_default`; see training/pipeline."""

from training.pipeline.default import main

if __name__ == "__main__":
    main()
