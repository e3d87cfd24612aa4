"""Work that is done later, by whichever worker comes first."""
