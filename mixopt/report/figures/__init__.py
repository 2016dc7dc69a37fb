"""One figure, one file: `draw(outcome)` gives a `Drawing`, or says in a sentence why there is nothing to draw."""
