"""The ground: the clock, the memory, the peaks and the identity of the machine at hand."""
