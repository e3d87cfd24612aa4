"""One run of a program: its view, the launcher inside, the pipes, its results."""
