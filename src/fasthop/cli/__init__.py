"""Floor 6: the command line, a thin shell around the Python functions."""
