"""What one does with past sessions; the only door of every entry point."""
