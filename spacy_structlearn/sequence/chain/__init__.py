"""The linear chain: its model, its states, and its decoding."""
