"""Pages for those who run challenges: `/organiser` and below."""
