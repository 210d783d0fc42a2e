"""What a recipe will cost, before it runs: operations, memory, time and money."""
