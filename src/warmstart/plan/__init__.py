"""Cost estimates for a recipe before it runs: floating-point operations, memory, time and money."""
