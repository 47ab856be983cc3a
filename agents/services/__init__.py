"""What one does with agents; the only door of every entry point."""
