"""Pages of memory: find what is asked for, call the services, hand a context to a template that decides nothing."""
