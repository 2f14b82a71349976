//! Published flow-size distributions as numbers: pairs (bytes, cumulative probability).
//!
//! The papers print only curves. These points are the digitisation in the public traffic generator
//! "empirical-traffic-gen" (Apache-2.0), which most later work used. Other digitisations differ by a few per cent; they
//! can be loaded as CDF files.

/// Web search: Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010, Fig. 4 (background flows of a
/// production cluster). Mean 1.71 MB.
pub(crate) const WEB_SEARCH: &[(f64, f64)] = &[
    (0.0, 0.0),
    (10e3, 0.15),
    (20e3, 0.2),
    (30e3, 0.3),
    (50e3, 0.4),
    (80e3, 0.53),
    (200e3, 0.6),
    (1e6, 0.7),
    (2e6, 0.8),
    (5e6, 0.9),
    (10e6, 0.97),
    (30e6, 1.0),
];

/// Data mining: Greenberg et al., "VL2: A Scalable and Flexible Data Center Network", SIGCOMM 2009, Fig. 2.
/// Mean 12.7 MB: the 2 % of flows above 100 MB carry most bytes.
pub(crate) const DATA_MINING: &[(f64, f64)] = &[
    (0.0, 0.0),
    (180.0, 0.1),
    (216.0, 0.2),
    (560.0, 0.3),
    (900.0, 0.4),
    (1100.0, 0.5),
    (1870.0, 0.6),
    (3160.0, 0.7),
    (10e3, 0.8),
    (400e3, 0.9),
    (3.16e6, 0.95),
    (100e6, 0.98),
    (1e9, 1.0),
];

/// Key-value store: Atikoglu et al., "Workload Analysis of a Large-Scale Key-Value Store", SIGMETRICS 2012
/// (value sizes of Facebook's ETC pool). Mean 342 bytes.
pub(crate) const FACEBOOK_KEY_VALUE: &[(f64, f64)] = &[
    (0.0, 0.0),
    (3.0, 0.28),
    (10.0, 0.32),
    (12.0, 0.44),
    (75.0, 0.5),
    (250.0, 0.75),
    (350.0, 0.9),
    (1000.0, 0.965),
    (2515.0, 0.98),
    (6326.0, 0.99),
    (10_032.0, 0.995),
    (15_910.0, 0.997),
    (23_009.0, 0.9992),
    (24_094.0, 0.9996),
    (25e3, 0.9999),
    (100e3, 0.99999),
    (1e6, 1.0),
];
