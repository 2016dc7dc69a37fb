"""What may be true: one formula a file."""
