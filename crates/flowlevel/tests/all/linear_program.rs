//! Compares max-min rates with an independent method: a sequence of linear programs.
//!
//! Each linear program maximises the common level of all open flows. A flow whose rate cannot rise further,
//! even if all other open flows stay at that level, is settled there.

use microlp::{ComparisonOp, OptimizationDirection, Problem, Variable};
use pauseframe_flowlevel::{Flows, MaxMin, Paths};
use pauseframe_units::PortId;
use proptest::prelude::*;

#[derive(Debug)]
struct Case {
    capacity: Vec<f64>,
    paths: Paths,
    weights: Vec<f64>,
    caps: Vec<f64>,
}

/// Makes a linear program over the rates of all flows, with the settled flows fixed; `gains[f]` is the weight
/// of flow f in the objective.
fn program(case: &Case, settled: &[Option<f64>], gains: &[f64]) -> (Problem, Vec<Variable>) {
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let rates: Vec<Variable> = (0..settled.len())
        .map(|f| problem.add_var(gains[f], settled[f].map_or((0.0, case.caps[f]), |rate| (rate, rate))))
        .collect();
    for (port, capacity) in case.capacity.iter().enumerate() {
        let on_port = |f: &usize| case.paths.of(*f).iter().any(|p| p.0 as usize == port);
        let sum: Vec<(Variable, f64)> = (0..rates.len()).filter(on_port).map(|f| (rates[f], 1.0)).collect();
        problem.add_constraint(sum, ComparisonOp::Le, *capacity);
    }
    (problem, rates)
}

fn optimum(problem: &Problem) -> f64 {
    let outcome = problem.solve().expect("zero rates, or those at the level, are feasible");
    assert!(outcome.is_optimal());
    outcome.solution().expect("an optimum has values").objective()
}

fn by_linear_programs(case: &Case) -> Vec<f64> {
    let flows = case.paths.len();
    let mut settled: Vec<Option<f64>> = vec![None; flows];
    while settled.iter().any(Option::is_none) {
        let open: Vec<usize> = (0..flows).filter(|f| settled[*f].is_none()).collect();
        let (mut problem, rates) = program(case, &settled, &vec![0.0; flows]);
        let level = problem.add_var(1.0, (0.0, f64::INFINITY));
        for f in &open {
            problem.add_constraint([(rates[*f], 1.0), (level, -case.weights[*f])], ComparisonOp::Ge, 0.0);
        }
        let level = optimum(&problem);
        let before = settled.clone();
        for f in open.iter().copied() {
            let mut gains = vec![0.0; flows];
            gains[f] = 1.0;
            let (mut problem, rates) = program(case, &before, &gains);
            for g in &open {
                // The bound is slightly below the level, so that rounding does not make the program
                // infeasible.
                let floor = case.weights[*g] * level * (1.0 - 1e-12);
                problem.add_constraint([(rates[*g], 1.0)], ComparisonOp::Ge, floor);
            }
            let most = optimum(&problem);
            if most <= case.weights[f] * level * (1.0 + 1e-7) {
                settled[f] = Some(case.weights[f] * level);
            }
        }
    }
    settled.into_iter().map(|rate| rate.expect("all are settled")).collect()
}

fn cases() -> impl Strategy<Value = Case> {
    let way = prop::collection::btree_set(0_u32..8, 1..4);
    let cap = prop_oneof![3 => Just(1e3), 1 => 0.25..2.0];
    let flows = prop::collection::vec((way, 0.5..2.0, cap), 1..12);
    (prop::collection::vec(1.0..8.0, 8), flows).prop_map(|(capacity, flows)| Case {
        capacity,
        paths: flows.iter().map(|flow| flow.0.iter().map(|port| PortId(*port))).collect(),
        weights: flows.iter().map(|flow| flow.1).collect(),
        caps: flows.iter().map(|flow| flow.2).collect(),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn agrees_with_linear_programs(case in cases().no_shrink()) {
        let flows = Flows { paths: &case.paths, weights: Some(&case.weights), caps: Some(&case.caps) };
        let rates = MaxMin::default().solve(&case.capacity, flows).unwrap();
        for (rate, expected) in rates.iter().zip(by_linear_programs(&case)) {
            prop_assert!((rate - expected).abs() <= 1e-9 * expected.max(1.0), "{rate} {expected}");
        }
    }
}
