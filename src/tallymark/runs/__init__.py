"""One `Run` whatever its door:
its record, tally, score and interval, comparison, gates, reports.
"""
