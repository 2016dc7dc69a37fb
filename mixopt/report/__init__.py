"""What a study found, for people: `report.html` and its figures."""
