"""What to do: a problem in, a plan out."""
