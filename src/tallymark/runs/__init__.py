"""One `Run` whatever its door: record, tally, score and interval, comparison, gates, reports."""
