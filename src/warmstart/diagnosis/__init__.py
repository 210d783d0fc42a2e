"""Diagnosis: where a run errs, whether its probabilities can be trusted, and which labels are probably wrong."""
