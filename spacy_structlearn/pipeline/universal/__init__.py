"""The layers of Universal Dependencies, from tags and trees."""
