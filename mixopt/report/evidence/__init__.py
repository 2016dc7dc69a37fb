"""What a fit rests on, for people: `fit.html` and its figures, one file each."""
