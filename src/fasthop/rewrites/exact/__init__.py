"""What the exact rungs share: the known inputs, their order, the traced program, and the fast model built of them."""
