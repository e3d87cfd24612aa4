"""Other tools' trace files, one file a dialect, each with its `DIALECT`.

A dialect is added as a file here and a line in `FORMATS`.
"""
