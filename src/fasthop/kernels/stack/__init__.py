"""A whole GNN as one static program: forward, loss, backward and optimiser in one compiled call."""
