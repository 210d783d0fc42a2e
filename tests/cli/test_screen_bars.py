"""Bars move in a terminal, and are one line each everywhere else, also where colours are asked for."""

import os
import subprocess
import sys

SCRIPT = """
from warmstart.cli.screen import Bars

with Bars().bar("training", 50) as bar:
    for _ in range(50):
        bar.advance()
"""


def test_a_notebook_that_asks_for_colours_gets_a_bar_on_one_line():
    environment = {**os.environ, "FORCE_COLOR": "1", "TERM": "xterm-color"}  # as a Jupyter kernel sets them
    printed = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment).stderr
    assert printed.count("training") == 1
    assert "50/50" in printed
    assert "\x1b[32m" in printed, "colours as asked for"
