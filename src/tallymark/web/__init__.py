"""The pages: what is kept, to look at, to question and to share."""
