"""Small language models that stand in for the one to be trained; one file a kind."""
