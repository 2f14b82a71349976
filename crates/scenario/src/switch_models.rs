//! Models of real switches: rows of published figures, which the file's own values override, like transport
//! presets.
//!
//! A row sets only values that its source publishes; every other key keeps its default. Left out: how real
//! switch chips divide their buffer into cells and banks, and thresholds that vendors do not publish.

use pauseframe_schema::row::{Row, RowValue, set};

const SHARED: RowValue = set("buffer.policy", "shared", "dynamic thresholds over one pool");
const DCTCP_TABLE: &str = "DCTCP, SIGCOMM 2010, Table 1";
const SONIC: &str = "pg_profile_lookup.ini of SONiC: alpha is 2 to the power of `threshold`";

/// All switch models.
pub const MODELS: &[Row] = &[
    Row {
        name: "g8264",
        doc: "IBM RackSwitch G8264: 48 ports of 10 Gb/s, 9 MB shared",
        row: &[SHARED, set("buffer.size", "9 MB", "bolt §IV-A1")],
    },
    Row {
        name: "triumph",
        doc: "Broadcom Triumph: 48 ports of 1 Gb/s, 4 of 10 Gb/s, 4 MB shared, ECN",
        row: &[SHARED, set("buffer.size", "4 MB", DCTCP_TABLE)],
    },
    Row {
        name: "scorpion",
        doc: "Broadcom Scorpion: 24 ports of 10 Gb/s, 4 MB shared, ECN",
        row: &[SHARED, set("buffer.size", "4 MB", DCTCP_TABLE)],
    },
    Row {
        name: "cat4948",
        doc: "Cisco CAT4948: 48 ports of 1 Gb/s, 2 of 10 Gb/s, 16 MB shared, no ECN",
        row: &[SHARED, set("buffer.size", "16 MB", DCTCP_TABLE), set("marker.kind", "none", DCTCP_TABLE)],
    },
    Row {
        name: "trident2",
        doc: "Broadcom Trident II as in Arista 7050QX-32: 32 ports of 40 Gb/s, 12 MB shared",
        row: &[
            SHARED,
            set("buffer.size", "12 MB", "DCQCN, SIGCOMM 2015, §4"),
            set("pfc.headroom", "22.4 KB", "DCQCN, SIGCOMM 2015, §4: t_flight"),
        ],
    },
    Row {
        name: "s6100",
        doc: "Dell S6100 (Broadcom Tomahawk): 16 MB shared, alpha 1/16",
        row: &[SHARED, set("buffer.size", "16 MB", "data sheet"), set("buffer.alpha", "0.0625", SONIC)],
    },
    Row {
        name: "arista_7050cx3",
        doc: "Arista 7050CX3-32S (Broadcom Trident 3): 32 MB shared, alpha 1",
        row: &[SHARED, set("buffer.size", "32 MB", "data sheet"), set("buffer.alpha", "1", SONIC)],
    },
    Row {
        name: "msn2700",
        doc: "Mellanox MSN2700 (Spectrum): 16 MB shared, alpha 1",
        row: &[SHARED, set("buffer.size", "16 MB", "data sheet"), set("buffer.alpha", "1", SONIC)],
    },
];
