"""Replays runs (`pauseframe view`), and exports them for other viewers (`pauseframe export`)."""

from pauseframe.view.build import build_view, view_page
from pauseframe.view.data import Playback, from_folder, has_log

__all__ = ["Playback", "build_view", "from_folder", "has_log", "view_page"]
