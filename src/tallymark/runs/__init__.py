"""`Run`: record, tally, score with interval, comparison, gates and reports."""
