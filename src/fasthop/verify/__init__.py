"""The proof that a rewritten model computes what the original does: the judge, who knows no contestant."""
