"""Learning rate and batch size over tokens, as data."""
