#!/usr/bin/env python3
"""Makes the pictures of README from today's code: docs/pictures/player.png, the player at the worst moment of a storm.

Run `make pictures`; `make docs` does. The picture keeps a digest of what it shows, in a text chunk. It is made again if
the player or the run has changed; tests/test_documentation.py compares. This needs Chromium.
"""

import hashlib
import shutil
import struct
import sys
import tempfile
import zlib
from pathlib import Path

import pauseframe as pf

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "pictures" / "player.png"
SCENARIO = ROOT / "docs" / "gallery" / "storm.toml"
WIDTH, HEIGHT = 1280, 706
"""What of the page is shown: the clock, the map, and the chain beside it."""
NAMES = ("chromium", "chromium-browser", "google-chrome")
KEY = b"Digest"
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def digest(run: pf.Run) -> str:
    """A digest of what the picture depends on: the files of the player and the run's results."""
    player = ROOT / "python" / "pauseframe" / "view"
    files = [*sorted((player / "templates").iterdir()), *sorted(player.glob("*.py")), SCENARIO]
    parts = [file.read_bytes() for file in files] + [run.summary["fingerprint"].encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def stored(picture: Path) -> str:
    """The digest that a picture keeps, or ""."""
    data = picture.read_bytes() if picture.is_file() else b""
    at = data.find(b"tEXt" + KEY + b"\0")
    return data[at + 5 + len(KEY) : at + 5 + len(KEY) + 64].decode() if at >= 0 else ""


def with_digest(png: bytes, text: str) -> bytes:
    """A PNG with the digest in a text chunk before its end (PNG 1.2, 4.2.3.1)."""
    if not png.startswith(SIGNATURE):
        raise ValueError("this is no PNG")
    body = b"tEXt" + KEY + b"\0" + text.encode()
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    return png[:-12] + chunk + png[-12:]


def photograph(page: Path) -> bytes:
    """The picture of a page at its first view."""
    from playwright.sync_api import sync_playwright

    flags = ["--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=flags)
        tab = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
        tab.goto(page.as_uri())
        tab.wait_for_selector("html[data-ready]")
        png: bytes = tab.screenshot(clip={"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT})
        browser.close()
    return png


def chromium() -> str | None:
    """The browser, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def main() -> int:
    """Makes the picture if it is not that of today's code."""
    from pauseframe.view import build_view, from_folder

    with tempfile.TemporaryDirectory() as home:
        run = pf.run(SCENARIO, out=Path(home) / "storm", progress=False)
        wanted = digest(run)
        if stored(PICTURE) == wanted:
            return 0
        if chromium() is None:
            print("no Chromium here: docs/pictures/player.png stays as it is", file=sys.stderr)
            return 0
        page = build_view([from_folder(Path(home) / "storm")], Path(home) / "player.html")
        PICTURE.write_bytes(with_digest(photograph(page), wanted))
    return 0


if __name__ == "__main__":
    sys.exit(main())
