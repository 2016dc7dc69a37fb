"""Carries a sweep out."""
