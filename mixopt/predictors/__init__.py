"""Models of the loss that are not laws: no formula to read, but few assumptions. One per file."""
