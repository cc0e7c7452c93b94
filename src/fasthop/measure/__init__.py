"""How a number is made: rounds, paired ratios and their intervals, and the Run that holds them."""
