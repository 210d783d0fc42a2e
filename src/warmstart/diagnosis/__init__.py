"""Diagnosis: where a run errs, how far its probabilities can be believed, and which labels are probably wrong."""
