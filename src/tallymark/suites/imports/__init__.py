"""From other tools' configurations and logs to suites: one module for each tool."""
