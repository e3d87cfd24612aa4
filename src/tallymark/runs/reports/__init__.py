"""Reports of runs: for the terminal, for scripts, spreadsheets, CI systems and browsers.

Every report is a pure function from runs to text; `summary` takes one run, the others several. The
page and comparisons load heavy libraries (a template engine with a chart engine, numpy), so they
are not exported here: `html_page.html_report`, `comparison_report.comparison_text`.
"""

from tallymark.runs.reports.csv_report import csv_report
from tallymark.runs.reports.json_report import json_report, run_document
from tallymark.runs.reports.junit_report import junit_report
from tallymark.runs.reports.markdown_report import markdown_report
from tallymark.runs.reports.summary_report import summary, summary_lines

__all__ = [
    "csv_report",
    "json_report",
    "junit_report",
    "markdown_report",
    "run_document",
    "summary",
    "summary_lines",
]
