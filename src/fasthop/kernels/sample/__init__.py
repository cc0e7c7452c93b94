"""Neighbor sampling: a few in-neighbors of every node, hop by hop, as PyG's NeighborLoader does it."""
