"""What can be done with memory. A module is a noun, a function a verb; entry points call these and nothing below."""
