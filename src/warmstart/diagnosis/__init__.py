"""Error analysis: where a model is wrong, how well it is calibrated, and which labels are probably wrong."""
