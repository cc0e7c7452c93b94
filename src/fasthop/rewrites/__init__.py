"""The rungs: one optimisation a file, and the ladders that compare them."""
