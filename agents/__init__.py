"""What a coding agent is, how Coffer attaches to it, and what it delivers there."""
