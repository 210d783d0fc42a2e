"""What a recipe will cost, before it runs: floating-point operations, memory, time and money."""
