"""Mutants of the core: `python tests/core_mutants.py [COUNT [SEED [PART]]]` runs the Rust tests that reach each.

The operators are those of cargo-mutants: another comparison, logical or arithmetic operator, a negation less, a
function that returns at once. One build holds all drawn mutants; the variable MUTANT chooses one. Every test runs once
by itself, so that each mutant meets only the tests that reach it, the fast ones first, for at most BUDGET seconds. A
mutant is killed if a test fails or hangs. The script prints each survivor that EQUIVALENT does not list, and fails if
more than 5 % survive. PART keeps the files whose path contains it.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tree_sitter_rust
from tree_sitter import Language, Node, Parser

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
TREE = ROOT / "target" / "mutants"
PLACES = [
    "rdma/src", "transport/src", "fabric/src/switching", "fabric/src/wire", "fabric/src/marker", "fabric/src/observers",
    "fabric/src/queue", "flowlevel/src", "routing/src/verify",
]  # fmt: skip
TESTED = ["rdma", "transport", "fabric", "flowlevel", "routing", "scenario"]
"""Crates whose tests run."""
BUDGET = 60.0
"""Seconds of tests for each mutant."""
SLOW = 10.0
"""Tests that take longer are no fast tests: none of them counts."""
EQUIVALENT: dict[str, str] = {
    "fabric/src/wire/jitter.rs: burst > 0 -> burst >= 0": "an empty token bucket delays no frame",
    "fabric/src/wire/jitter.rs: plan.settings.wire_burst > 0 -> plan.settings.wire_burst >= 0": "the slow path adds "
    "nothing to the delay of a link without jitter",
    "fabric/src/switching/paths.rs: self.ports.len() < row + self.stride -> self.ports.len() <= row + self.stride": (
        "to resize to the length that it has changes nothing"
    ),
    "routing/src/verify/lengths.rs: hop == Hop::Lost && port != PortId::NONE -> hop == Hop::Lost || port != "
    "PortId::NONE": "only the cache is lost",
    "transport/src/receiver/buffer.rs: full > self.mss -> full >= self.mss": "one segment is a whole one",
    "transport/src/super_packets.rs: last.count() > 1 -> last.count() < 1": "two parts of a run of buffers are the run",
    "transport/src/receiver/reassembly.rs: ahead < 0 -> ahead <= 0": "a segment at RCV.NXT has nothing below it",
    "transport/src/receiver/reassembly.rs: held.stamp >= carried.stamp -> held.stamp > carried.stamp": "each range has "
    "its own stamp",
    "fabric/src/switching/mod.rs: backlog + u64::from(packet.size) > ctx.hot.unchecked_below[number] -> backlog + "
    "u64::from(packet.size) >= ctx.hot.unchecked_below[number]": "at the limit the checks admit and do not mark",
    "fabric/src/wire/boundary.rs: fn prefetch_outboxes -> return": "a hint to the processor",
    "fabric/src/wire/boundary.rs: 2 * OUTBOX_PREFETCH_DISTANCE -> 2 + OUTBOX_PREFETCH_DISTANCE": "a hint to the "
    "processor",
    "fabric/src/observers/states.rs: seen.left <= 0.0 -> seen.left < 0.0": "an idle queue has nothing that the slow "
    "path would log",
    "flowlevel/src/dynamic.rs: ENDS_MOST * self.under_way() -> ENDS_MOST + self.under_way()": "outdated ends do not "
    "count, whenever they are removed",
    "routing/src/verify/lengths.rs: hop == Hop::Lost && port != PortId::NONE && tree.hosts.len() > 1 -> hop == "
    "Hop::Lost && port != PortId::NONE || tree.hosts.len() > 1": "only the cache is lost",
    "transport/src/scoreboard.rs: self.sacked > 0 -> self.sacked >= 0": "the search finds none if nothing is sacked",
    "flowlevel/src/shares.rs: flow.cap <= highest -> flow.cap < highest": "at the end of the tolerance either is in it",
    "routing/src/verify/walk.rs: tables.trees.len() * sources.len() -> tables.trees.len() + sources.len()": "a list of "
    "another capacity grows",
    "transport/src/super_packets.rs: rounds < 32 -> rounds <= 32": "the largest super-packet has 32 bits",
    "transport/src/writer.rs: queued < self.size -> queued <= self.size": "of a full buffer no third is free",
    "fabric/src/marker/red.rs: self.rng.uniform_unit() < p_a -> self.rng.uniform_unit() <= p_a": "one of 2^53 draws is "
    "equal",
}
"""Survivors that no test can tell from the code, with the reason."""

SWAPS = {
    "<": ["<=", ">"], "<=": ["<", ">"], ">": [">=", "<"], ">=": [">", "<"], "==": ["!="], "!=": ["=="],
    "&&": ["||"], "||": ["&&"], "+": ["-"], "-": ["+"], "*": ["+"], "/": ["*"], "%": ["/"],
    "+=": ["-="], "-=": ["+="],
}  # fmt: skip
RETURNS = {
    "bool": ["true", "false"],
    "()": [""],
    **{whole: ["0", "1"] for whole in ["u64", "u32", "u16", "usize", "i64"]},
}
SWITCH = """
/// Whether the mutant with this number is chosen; notes that it was reached.
pub fn mutant(number: u32) -> bool {
    use std::io::Write as _;
    static CHOSEN: std::sync::LazyLock<Option<u32>> =
        std::sync::LazyLock::new(|| std::env::var("MUTANT").ok().and_then(|text| text.parse().ok()));
    static REACHED: std::sync::LazyLock<Option<(std::fs::File, Vec<std::sync::atomic::AtomicBool>)>> =
        std::sync::LazyLock::new(|| {
            let path = std::env::var("MUTANTS_REACHED").ok()?;
            let file = std::fs::OpenOptions::new().create(true).append(true).open(path).ok()?;
            Some((file, (0..10_000).map(|_| false.into()).collect()))
        });
    if let Some((file, reached)) = &*REACHED
        && !reached[number as usize].swap(true, std::sync::atomic::Ordering::Relaxed)
    {
        let mut file = file;
        let _ = file.write_all(format!("{number}\\n").as_bytes());
    }
    *CHOSEN == Some(number)
}
"""
PARSER = Parser(Language(tree_sitter_rust.language()))


@dataclass(frozen=True)
class Mutant:
    """A place in a file, and the text that stands there instead."""

    file: str
    start: int
    end: int
    line: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.file}: {self.before} -> {self.after or 'return'}"

    def render(self, number: int) -> str:
        """The text of the place in the build that holds all mutants."""
        chosen = f"pauseframe_units::mutant({number})"
        if self.start == self.end:
            return f" if {chosen} {{ return {self.after}; }} "
        if self.before.split(" ")[1:2] in (["+="], ["-="]):
            return f"if {chosen} {{ {self.after} }} else {{ {self.before} }}"
        return f"(if {chosen} {{ {self.after} }} else {{ {self.before} }})"


@dataclass
class Test:
    """A test of a binary, with what it reached and how long it took."""

    binary: str
    name: str
    folder: str
    seconds: float = 0.0
    reached: set[int] = field(default_factory=set)


def walk(node: Node) -> Iterator[Node]:
    """All nodes below one that run in a release build: no tests, constants, macros or types."""
    before = ""
    for child in node.children:
        skipped = child.type in {"const_item", "static_item", "macro_invocation", "macro_definition", "enum_variant",
                                 "array_type", "const_block", "type_arguments"}  # fmt: skip
        test = child.type in {"mod_item", "function_item", "impl_item"} and ("test" in before)
        constant = child.type == "function_item" and any(
            part.type == "function_modifiers" and b"const" in (part.text or b"") for part in child.children
        )
        if child.type == "attribute_item":
            before += (child.text or b"").decode()
            continue
        before = ""
        if skipped or test or constant:
            continue
        yield child
        yield from walk(child)


def candidates(file: str) -> Iterator[Mutant]:
    """Every mutant of a file."""
    source = (ROOT / "crates" / file).read_bytes()

    def text(node: Node) -> str:
        return source[node.start_byte : node.end_byte].decode()

    def of(node: Node, after: str) -> Mutant:
        return Mutant(file, node.start_byte, node.end_byte, node.start_point[0] + 1, text(node), after)

    for node in walk(PARSER.parse(source).root_node):
        if node.type in {"binary_expression", "compound_assignment_expr"} and "let " not in text(node):
            left, operator, right = node.children
            for other in SWAPS.get(text(operator), []):
                yield of(node, f"{text(left)} {other} {text(right)}")
        elif node.type == "unary_expression" and text(node.children[0]) == "!":
            yield of(node, text(node.children[1]))
        elif node.type == "function_item":
            body, gives = node.child_by_field_name("body"), node.child_by_field_name("return_type")
            name = node.child_by_field_name("name")
            if body is None or name is None or len(body.named_children) == 0:
                continue
            given = [text(part) for part in body.named_children]
            others = RETURNS.get("()" if gives is None else text(gives), [])
            for value in (value for value in others if given != [value]):
                at = body.start_byte + 1
                yield Mutant(file, at, at, node.start_point[0] + 1, f"fn {text(name)}", value)


def draw(count: int, seed: int, part: str) -> list[Mutant]:
    """Mutants that do not overlap, drawn by a seed."""
    files = sorted(
        str(path.relative_to(ROOT / "crates"))
        for place in PLACES
        for path in (ROOT / "crates" / place).rglob("*.rs")
        if "test" not in path.stem and "invariants" not in str(path) and part in str(path)
    )
    everything = [mutant for file in files for mutant in candidates(file)]
    random.Random(seed).shuffle(everything)
    drawn: list[Mutant] = []
    for mutant in everything:
        if len(drawn) == count:
            break
        if all(other.file != mutant.file or other.end <= mutant.start or mutant.end <= other.start for other in drawn):
            drawn.append(mutant)
    sys.stdout.write(f"{len(everything)} places, {len(drawn)} drawn with seed {seed}\n")
    return drawn


def write(mutants: dict[int, Mutant]) -> None:
    """Writes the sources that hold these mutants into TREE, leaving unchanged files alone."""
    by_file: dict[str, list[tuple[int, Mutant]]] = {}
    for number, mutant in mutants.items():
        by_file.setdefault(mutant.file, []).append((number, mutant))
    for path in (ROOT / "crates").rglob("*"):
        if path.is_dir():
            continue
        file = str(path.relative_to(ROOT / "crates"))
        source = path.read_bytes()
        for number, mutant in sorted(by_file.get(file, []), key=lambda one: -one[1].start):
            source = source[: mutant.start] + mutant.render(number).encode() + source[mutant.end :]
        if file == "units/src/lib.rs":
            source += SWITCH.encode()
        target = TREE / "crates" / file
        if not target.exists() or target.read_bytes() != source:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source)
    for path in (TREE / "crates").rglob("*.rs"):
        if not (ROOT / "crates" / path.relative_to(TREE / "crates")).exists():
            path.unlink()


def cargo(*arguments: str) -> Iterator[dict[str, Any]]:
    """Messages of cargo in TREE."""
    line = ["cargo", *arguments, "--message-format=json", "--quiet"]
    line += [word for crate in TESTED for word in ("-p", f"pauseframe-{crate}")]
    # A mutant that always overflows is one like any other.
    allowed = "-Awarnings -Aarithmetic_overflow -Aunconditional_panic"
    environment = os.environ | {"CARGO_TARGET_DIR": str(TREE / "target"), "RUSTFLAGS": allowed}
    with subprocess.Popen(line, cwd=TREE, stdout=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stdout is not None
        for text in process.stdout:
            yield json.loads(text)


def refused(mutants: dict[int, Mutant]) -> set[int]:
    """Numbers of the mutants that do not compile."""
    numbers: set[int] = set()
    for message in cargo("check", "--lib"):
        if message.get("reason") != "compiler-message" or message["message"]["level"] != "error":
            continue
        spans = [span for span in message["message"]["spans"] if span["is_primary"]]
        for span in spans:
            source = (TREE / span["file_name"]).read_bytes()
            # The place itself, or the statement that it makes wrong.
            around = source[max(0, span["byte_start"] - 400) : span["byte_end"] + 200].decode(errors="replace")
            inside = source[span["byte_start"] : span["byte_end"]].decode(errors="replace")
            named = re.findall(r"mutant\((\d+)\)", inside) or re.findall(r"mutant\((\d+)\)", around)
            numbers.update(int(number) for number in named if int(number) in mutants)
        if not spans:
            continue
        if not numbers:
            raise RuntimeError(message["message"]["rendered"])
    return numbers


def build(mutants: dict[int, Mutant]) -> tuple[dict[int, Mutant], list[tuple[str, str]]]:
    """The mutants that compile, and the test binaries that hold them, with the folders in which they run."""
    TREE.mkdir(parents=True, exist_ok=True)
    for name in ("Cargo.toml", "Cargo.lock", "rust-toolchain.toml", "clippy.toml"):
        shutil.copy(ROOT / name, TREE / name)
    for name in ("docs", "examples", "python", "tests", "benchmarks", "validation", "tools"):
        link = TREE / name
        if not link.exists():
            link.symlink_to(ROOT / name)
    while True:
        write(mutants)
        wrong = refused(mutants)
        if not wrong:
            break
        sys.stdout.write(f"{len(wrong)} do not compile\n")
        mutants = {number: mutant for number, mutant in mutants.items() if number not in wrong}
    binaries = [
        (message["executable"], str(Path(message["manifest_path"]).parent))
        for message in cargo("test", "--no-run", "--lib", "--tests")
        if message.get("reason") == "compiler-artifact" and message.get("executable") and message["profile"]["test"]
    ]
    if not binaries:
        raise RuntimeError("the mutants pass `cargo check`, but the tests with them do not compile")
    return mutants, binaries


def run(test: Test, names: list[str], limit: float, **variables: str) -> bool:
    """Whether these tests of a binary pass in time."""
    line = [test.binary, "--exact", "--test-threads", "1", *names]
    environment = os.environ | variables
    with subprocess.Popen(
        line, cwd=test.folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            return process.wait(limit) == 0
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            return False


def survey(test: Test) -> Test | None:
    """Runs a test by itself, for what it reaches; nothing if it is slow."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as home:
        file = Path(home) / "reached"
        began = time.monotonic()
        passed = run(test, [test.name], 4 * SLOW, MUTANTS_REACHED=str(file))
        test.seconds = time.monotonic() - began
        test.reached = {int(word) for word in file.read_text().split()} if file.exists() else set()
    if not passed and test.seconds < SLOW:
        sys.stdout.write(f"fails without a mutant: {test.name}\n")
    return test if passed and test.seconds < SLOW and test.reached else None


def tests_of(binaries: list[tuple[str, str]], workers: ThreadPoolExecutor) -> list[Test]:
    """All fast tests, each with what it reaches."""
    every = []
    for binary, folder in binaries:
        listed = subprocess.run(
            [binary, "--list", "--format", "terse"], cwd=folder, capture_output=True, text=True, check=True
        )
        names = [line.removesuffix(": test") for line in listed.stdout.splitlines() if line.endswith(": test")]
        every += [Test(binary, name, folder) for name in names]
    return [test for test in workers.map(survey, every) if test is not None]


def survives(number: int, tests: list[Test]) -> bool:
    """Whether no fast test notices a mutant."""
    reaching = sorted((test for test in tests if number in test.reached), key=lambda test: test.seconds)
    spent = 0.0
    quick: dict[str, list[Test]] = {}
    for test in reaching:
        if test.seconds < 0.1:
            quick.setdefault(test.binary, []).append(test)
    for group in quick.values():
        if not run(group[0], [test.name for test in group], 20 + 5 * len(group), MUTANT=str(number)):
            return False
    for test in reaching:
        if test.seconds < 0.1:
            continue
        if spent > BUDGET:
            break
        spent += test.seconds
        if not run(test, [test.name], 20 + 5 * test.seconds, MUTANT=str(number)):
            return False
    return True


def main(count: int = 300, seed: int = 1, part: str = "") -> int:
    """Draws mutants with a seed; the share of survivors without a reason in percent."""
    drawn = dict(enumerate(draw(count, seed, part)))
    mutants, binaries = build(drawn)
    with ThreadPoolExecutor(int(os.environ.get("MUTANTS_WORKERS", len(os.sched_getaffinity(0))))) as workers:
        tests = tests_of(binaries, workers)
        sys.stdout.write(f"{len(mutants)} mutants, {len(tests)} fast tests that reach one\n")
        sys.stdout.flush()

        def judge(number: int) -> str | None:
            mutant = mutants[number]
            if not survives(number, tests) or str(mutant) in EQUIVALENT:
                return None
            reached = sum(number in test.reached for test in tests)
            sys.stdout.write(f"survives {reached} tests: {mutant.file}:{mutant.line}: {mutant.before} -> "
                             f"{mutant.after or 'return'}\n")  # fmt: skip
            sys.stdout.flush()
            return str(mutant)

        survivors = [one for one in workers.map(judge, mutants) if one is not None]
    sys.stdout.write(json.dumps({"mutants": len(mutants), "seed": seed, "survivors": len(survivors)}) + "\n")
    return 100 * len(survivors) // max(len(mutants), 1)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    left = main(*map(int, arguments[:2]), *arguments[2:])  # type: ignore[arg-type]
    sys.exit(left >= 5)
