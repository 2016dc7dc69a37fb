"""Tables of runs from elsewhere; one file a source."""
