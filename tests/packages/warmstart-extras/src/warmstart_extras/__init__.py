"""An example of a package that adds parts to warmstart: `pyproject.toml` names them."""
