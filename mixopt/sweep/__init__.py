"""Which proxy runs to do."""
