"""Entry point of `python -m pauseframe`."""

from pauseframe.cli import main

main()
