"""Using a finished model: answers to texts. Nothing in here trains, or imports what does."""
