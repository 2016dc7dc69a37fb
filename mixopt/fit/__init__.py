"""What is true: a law fitted to runs."""
