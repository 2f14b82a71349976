"""Fails on constructions that readers stumble over, in pages, comments, docstrings and help texts (CONTRIBUTING.md)."""

import re
import subprocess
import sys
from pathlib import Path

SKIPPED: tuple[str, ...] = ("CHANGELOG.md", "tools/check_english.py")
AVOIDED = re.compile(
    r"\b((?<!if )(?<!once )there (is|are|was|were) (an?|no|not|none|one|two|nothing|only|more|some|any)"
    r"|that there (is|are)|it is that|that which|such as it is|of (its|their|his|our) own|anew|brought forward|whoever"
    r"|(is|are) (said|told|asked for)|in vain|cut wires?|glance|looks? far|nobody's|is no more|be had|all the same"
    r"|by lot|says so|in so many)\b",
    re.IGNORECASE,
)
CODE = re.compile(r"^```.*?^```|`[^`\n]+`|<[^>\n]+>", re.DOTALL | re.MULTILINE)
PROSE = {
    ".md": re.compile(r".+"),
    ".py": re.compile(r'#.*|"""[\s\S]*?"""|help=\s*\(?(\s*"[^"]*")+'),
    ".rs": re.compile(r"//.*"),
}


def found(path: Path) -> list[str]:
    """The constructions to avoid in a file, as one message per occurrence."""
    text = CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), path.read_text(encoding="utf-8"))
    places = [
        (part.start() + match.start(), match[0])
        for part in PROSE[path.suffix].finditer(text)
        for match in AVOIDED.finditer(part[0])
    ]
    lines = [(text.count("\n", 0, at) + 1, words) for at, words in places]
    return [f"{path}:{line}: avoid {words!r}" for line, words in lines]


if __name__ == "__main__":
    listed = subprocess.run(["git", "ls-files", "*.md", "*.py", "*.rs"], capture_output=True, text=True, check=True)
    paths = [Path(path) for path in listed.stdout.split() if not path.startswith(SKIPPED)]
    sys.exit("\n".join(line for path in paths for line in found(path)) or 0)
