"""`structlearn serve`: a JSON server and a page for a pipeline. Needs the extra `serve`."""
