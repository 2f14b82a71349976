"""`pauseframe import mlxconfig`: each register of DCQCN is used, shown, or refused by name."""

import tomllib
from pathlib import Path

import pytest
from pauseframe._core import InputError, resolve
from pauseframe.imports.mlxconfig import CLAMPS, OPTIONAL, RULES, read_dump

SHIPPED = {
    "ROCE_CC_PRIO_MASK": "255",
    "CLAMP_TGT_RATE_AFTER_TIME_INC": "True(1)",
    "CLAMP_TGT_RATE": "False(0)",
    "RPG_TIME_RESET": "300",
    "RPG_BYTE_RESET": "32767",
    "RPG_THRESHOLD": "1",
    "RPG_MAX_RATE": "0",
    "RPG_AI_RATE": "5",
    "RPG_HAI_RATE": "50",
    "RPG_GD": "11",
    "RPG_MIN_DEC_FAC": "50",
    "RPG_MIN_RATE": "1",
    "RATE_TO_SET_ON_FIRST_CNP": "0",
    "DCE_TCP_G": "1019",
    "DCE_TCP_RTT": "1",
    "RATE_REDUCE_MONITOR_PERIOD": "4",
    "INITIAL_ALPHA_VALUE": "1023",
    "MIN_TIME_BETWEEN_CNPS": "4",
    "CNP_802P_PRIO": "6",
    "CNP_DSCP": "48",
}
"""What ConnectX-5, -6 Lx and BlueField cards ship."""
STAR = """
topology = { kind = "star", hosts = 3, link = { rate = "100 Gbps", delay = "1 us" } }
workload = [{ kind = "n_to_1", senders = 2, size = "1 MB" }]
"""


def dump(folder: Path, *, old: bool = False, **changes: str) -> Path:
    """A query's text: with the columns of `-e`, or as older versions print it."""
    values = {**SHIPPED, **changes}
    head = "Next Boot" if old else "Default         Current         Next Boot"
    lines = ["", "Device #1:", "----------", "Device type:    ConnectX5", f"Configurations:      {head}"]
    lines.append("         SRIOV_EN          False(0)        False(0)        False(0)")
    for port in (1, 2):
        for name, value in values.items():
            mark = "*" if value != SHIPPED[name] else " "
            columns = f"{value}" if old else f"{SHIPPED[name]:16}{value:16}{SHIPPED[name]:16}"
            lines.append(f"{mark}        {name + f'_P{port}':36}{columns}")
    path = folder / "card.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def transport(text: str) -> dict[str, object]:
    """The resolved transport of a scenario with the table."""
    table: dict[str, object] = tomllib.loads(resolve(STAR + text).toml)["transport"]
    return table


@pytest.mark.parametrize("old", [False, True])
def test_shipped_registers_are_the_preset(tmp_path: Path, old: bool) -> None:
    imported = read_dump(dump(tmp_path, old=old))
    table = tomllib.loads(imported.toml)["transport"]
    resolved, preset = transport(imported.toml), transport('[transport]\npreset = "roce_dcqcn"\n')
    assert {key: resolved[key] for key in preset} == preset
    assert table["dcqcn_gain"] == 5 / 1024
    assert table["dcqcn_initial_alpha"] == 1023 / 1024
    assert [table[f"dcqcn_{key}"] for key in ("rise_interval", "cut_interval", "alpha_interval")] == [
        "300 us",
        "4 us",
        "1 us",
    ]
    assert (table["dcqcn_additive_increase"], table["dcqcn_hyper_increase"]) == ("5 Mbps", "50 Mbps")
    assert (table["rdma_cnp_interval"], table["rdma_cnp_scope"]) == ("4 us", "port")
    for name in SHIPPED:
        assert f"{name} " in imported.toml, name
    assert any(note.startswith("RPG_BYTE_RESET 32767: treated as off") for note in imported.notes)
    assert imported.notes[-1] == "not used: SRIOV_EN"


def test_changed_registers_are_read_from_the_current_column(tmp_path: Path) -> None:
    path = dump(tmp_path, RPG_TIME_RESET="900", RPG_MIN_RATE="100", MIN_TIME_BETWEEN_CNPS="0", CLAMP_TGT_RATE="True(1)")
    table = tomllib.loads(read_dump(path).toml)["transport"]
    assert (table["dcqcn_rise_interval"], table["dcqcn_minimum_rate"]) == ("900 us", "100 Mbps")
    assert (table["rdma_cnp_interval"], table["dcqcn_clamp_target"]) == ("0 us", "always")
    assert transport(read_dump(path).toml)["dcqcn_clamp_target"] == "always"


def test_ports_are_told_apart(tmp_path: Path) -> None:
    path = dump(tmp_path)
    path.write_text(path.read_text().replace("RPG_HAI_RATE_P2", "RPG_OLD_RATE_P2") + "RPG_HAI_RATE_P2=100 100 100\n")
    first, second = (read_dump(path, port) for port in (1, 2))
    assert "port 2 differs in RPG_HAI_RATE; --port 2 takes its values" in first.notes
    assert tomllib.loads(second.toml)["transport"]["dcqcn_hyper_increase"] == "100 Mbps"
    with pytest.raises(InputError, match="port 3 has none of the registers of DCQCN"):
        read_dump(path, 3)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RPG_GD", "10"),
        ("RPG_MIN_DEC_FAC", "51"),
        ("RPG_MAX_RATE", "1000"),
        ("RATE_TO_SET_ON_FIRST_CNP", "1"),
        ("RPG_THRESHOLD", "0"),
        ("RPG_AI_RATE", "0"),
        ("DCE_TCP_G", "1024"),
        ("DCE_TCP_RTT", "0"),
        ("INITIAL_ALPHA_VALUE", "0"),
        ("CLAMP_TGT_RATE_AFTER_TIME_INC", "False(0)"),
        ("RPG_TIME_RESET", "many"),
    ],
)
def test_what_cannot_be_simulated_is_refused_by_name(tmp_path: Path, name: str, value: str) -> None:
    with pytest.raises(InputError, match=f"{name}"):
        read_dump(dump(tmp_path, old=False, **{name: value}))


@pytest.mark.parametrize("changes", [{}, {"RPG_GD": "10", "CLAMP_TGT_RATE": "True(1)", "DCE_TCP_RTT": "0"}])
def test_without_priorities_the_control_is_off(tmp_path: Path, changes: dict[str, str]) -> None:
    """Registers of DCQCN are comments, whatever their values: keys would change nothing, and each run would warn."""
    imported = read_dump(dump(tmp_path, old=False, ROCE_CC_PRIO_MASK="0", **changes))
    table = tomllib.loads(imported.toml)["transport"]
    assert table["rdma_control"] == "none"
    assert [key for key in table if key.startswith("dcqcn_")] == []
    assert resolve(STAR + imported.toml).warnings == []
    for name in SHIPPED:
        assert f"{name} " in imported.toml, name
    assert "RPG_AI_RATE 5: no effect: DCQCN is off; otherwise dcqcn_additive_increase" in imported.toml
    with pytest.raises(InputError, match="CNP_DSCP"):
        read_dump(dump(tmp_path, ROCE_CC_PRIO_MASK="0", CNP_DSCP="64"))
    assert imported.notes[0] == "ROCE_CC_PRIO_MASK 0: DCQCN is off, so its other registers change nothing"


def test_a_card_with_dcqcn_off_needs_only_registers_of_cnps(tmp_path: Path) -> None:
    path = tmp_path / "card.txt"
    path.write_text("ROCE_CC_PRIO_MASK_P1 0\nMIN_TIME_BETWEEN_CNPS_P1 4\nCNP_DSCP_P1 48\n")
    assert read_dump(path).notes[-1] == "not in the dump, so as dcqcn_connectx has them: CNP_802P_PRIO"


def test_every_register_of_the_page_has_a_rule() -> None:
    assert set(SHIPPED) == set(RULES) - OPTIONAL | set(CLAMPS)


def test_other_texts_are_no_dump(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    for text in ("", "RPG_TIME 3\n", STAR):
        path.write_text(text)
        with pytest.raises(InputError, match="none of the registers"):
            read_dump(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="is not UTF-8"):
        read_dump(path)
