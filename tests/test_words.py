"""Wording rules: no reference to a missing document, sources have keys, and terms have one spelling."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SUFFIXES = {".rs", ".py", ".pyi", ".md", ".toml", ".j2", ".js", ".css", ".sh", ".cff", ".yml"}
OUTSIDE = [
    r"\bmodels?\.md\b(?! .*\]\()",
    r"\bdesign/",
    r"[Dd]esign notes",
    r"\b(claims|linux-tcp|operators|peers|house|stack|models)\.md\b",
    r"/work/(wt|main|shared|\.)",
    r"\bthe notes (want|say|propose)\b",
    r"\bSOURCES\.md\b",
]
"""Names of documents that do not exist."""
WORDS = {
    r"\b[Tt]ime-outs?\b": "timeout",
    r"\b[Cc]an not\b": "cannot",
    r"\b(row|line|bar|table) a (run|port|flow)\b": "per",
}
PAPERS = r"^### ([A-Za-z]+\d\d)$"


def tracked():
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [ROOT / name for name in done.stdout.splitlines()]
    return [path for path in paths if path.suffix in SUFFIXES and path.is_file() and not path.is_symlink()]


def found(pattern, paths):
    """The lines on which a pattern occurs."""
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in paths
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(pattern, line)
    ]


FILES = [path for path in tracked() if path != Path(__file__)]
PROSE = [path for path in FILES if path.suffix != ".rs" and path.name != "CHANGELOG.md"]


@pytest.mark.parametrize("pattern", OUTSIDE)
def test_no_document_outside_of_the_repository(pattern):
    assert found(pattern, FILES) == []


def test_no_placeholder_is_left_in_a_page():
    """A number that an author meant to fill in later: @RATES@."""
    assert found(r"@[A-Z]+@", [path for path in FILES if path.suffix == ".md"]) == []


@pytest.mark.parametrize(("pattern", "word"), WORDS.items())
def test_the_words_of_the_field(pattern, word):
    # For the comments of the core, only the last word is checked so far.
    assert found(pattern, FILES if word == "cannot" else PROSE) == [], f"write {word}"


def test_one_word_has_one_meaning():
    """As in the glossary, a lane is a virtual lane (a slot is a port and a priority), and a stream a random stream."""
    player = [path for path in FILES if ROOT / "python/pauseframe/view" in path.parents and "assets" not in path.parts]
    assert found(r"(?i)lane", player) == []
    docs = [path for path in FILES if path.suffix == ".md" and ROOT / "docs" in path.parents]
    streams = found(r"\b(byte|data|datagram|packet|UDP)[- ]?streams?\b|\bstreams? of (bytes|datagrams|packets)\b", docs)
    assert streams == []


def test_one_word_has_one_meaning_in_the_core():
    """In the core, too, the word lane is used only for VLANs, and the word stream only for random draws."""
    core = [path for path in FILES if ROOT / "crates/fabric/src" in path.parents]
    lanes = found(r"(?i)(?<!p)lane", [path for path in core if path.name not in ("vlan.rs", "pfc.rs")])
    assert [line for line in lanes if ".vlans" not in line and "tables" not in line] == []
    names = found(r"\bHeld\b|\w*Stream|\w_streams?\b|\bstreams?_\w", core)
    assert [line for line in names if "MarkerRandomStreams" not in line and "random_stream" not in line] == []
    assert [line for line in found(r"//.*\b(streams|a stream)\b", core) if "andom stream" not in line] == []


def test_every_paper_is_cited_and_every_key_is_listed():
    docs = [path for path in FILES if path.suffix == ".md" and ROOT / "docs" in path.parents]
    keys = re.findall(PAPERS, (ROOT / "docs" / "bibliography.md").read_text(encoding="utf-8"), re.M)
    cited = {key for path in docs for key in re.findall(r"\[(\w+)\]\([./]*bibliography\.md#", path.read_text("utf-8"))}
    assert cited == set(keys), cited ^ set(keys)


def test_pages_that_are_named_exist():
    """Pages named in comments and prose exist; `make docs` checks links separately."""
    for path in FILES:
        for name in re.findall(r"\bdocs/[\w/-]+\.md\b(?!\.\w)", path.read_text(encoding="utf-8")):
            assert (ROOT / name).is_file(), f"{path.relative_to(ROOT)} names {name}"
