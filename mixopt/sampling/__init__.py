"""What each step trains on."""
