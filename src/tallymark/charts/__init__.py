"""Charts as SVG: numbers in, a drawing out."""
