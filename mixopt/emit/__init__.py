"""Configuration files of training stacks; one file a stack."""
