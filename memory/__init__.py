"""Stores, lanes and recall: what is remembered, and how it is found."""
