"""Sessions on the command line."""
