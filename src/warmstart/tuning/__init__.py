"""How training goes: which layers learn, at what rate, when, and from which rows at a time."""
