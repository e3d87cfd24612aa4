"""Charts as SVG: numbers in, a drawing and its table out. One file for each kind of chart."""
