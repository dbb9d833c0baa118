"""Fine-tuning of pretrained encoders; needs torch."""
