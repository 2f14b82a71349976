//! Checks that collective algorithms on a network without contention take exactly the time of their closed
//! forms, to the picosecond.

use pauseframe_apps::generate::{Pattern, Shape, generate};
use pauseframe_apps::ideal::{self, IdealNetwork, Sharing};
use pauseframe_apps::{
    Algorithm, Application, Call, Kind, Options, Part, Program, Round, critical_path, round,
};
use pauseframe_units::{BitRate, Bytes, Span, Time};
use proptest::prelude::*;
use std::sync::Arc;

const NETWORK: IdealNetwork =
    IdealNetwork { latency: Span::from_us(3), rate: BitRate::gbps(10), sharing: Sharing::Nothing };

/// Options without envelopes and without announcements.
fn plain() -> Options {
    Options { eager_limit: u64::MAX, envelope: 0, ..Options::default() }
}

fn application(call: &Call, ranks: u32) -> Application {
    let mut program = Program::default();
    program.push_call(call.clone(), None, 0);
    Application::new("one call", vec![program; ranks as usize])
}

fn time_of(application: Application, options: &Options) -> Span {
    let path = critical_path(&application, options, NETWORK).expect("it has a path");
    let replay = ideal::run(Arc::new(application), options.clone(), NETWORK).expect("it can be replayed");
    let end = replay.finish().expect("every rank ends") - Time::ZERO;
    assert_eq!(path.length, end, "the replay and the critical path");
    end
}

/// Sum of `a` latencies and the serialisation time of `b` bytes.
fn alpha_beta(a: u64, b: u64) -> Span {
    NETWORK.latency * a + NETWORK.rate.serialise(Bytes(b))
}

fn log2(ranks: u32) -> u64 {
    u64::from(ranks.next_power_of_two().trailing_zeros())
}

#[test]
fn powers_of_two_take_the_time_of_the_closed_form() {
    use Algorithm as A;
    for ranks in [2_u32, 4, 8, 32, 64] {
        let (p, log, n) = (u64::from(ranks), log2(ranks), 64 * 1024);
        let forms = [
            (Kind::Barrier, A::Dissemination, log, 0),
            (Kind::Bcast, A::Binomial, log, log * n),
            (Kind::Bcast, A::ScatterAllgather, log + p - 1, 2 * (p - 1) * n / p),
            (Kind::Reduce, A::Binomial, log, log * n),
            (Kind::Reduce, A::Rabenseifner, 2 * log, 2 * (p - 1) * n / p),
            (Kind::Allreduce, A::RecursiveDoubling, log, log * n),
            (Kind::Allreduce, A::Rabenseifner, 2 * log, 2 * (p - 1) * n / p),
            (Kind::Allreduce, A::Ring, 2 * (p - 1), 2 * (p - 1) * n / p),
            (Kind::Allreduce, A::Binomial, 2 * log, 2 * log * n),
            (Kind::Gather, A::Binomial, log, (p - 1) * n),
            (Kind::Scatter, A::Binomial, log, (p - 1) * n),
            (Kind::Gather, A::Direct, 1, n),
            (Kind::Allgather, A::RecursiveDoubling, log, (p - 1) * n),
            (Kind::Allgather, A::Bruck, log, (p - 1) * n),
            (Kind::Allgather, A::Ring, p - 1, (p - 1) * n),
            (Kind::Alltoall, A::Bruck, log, log * n * p / 2),
            (Kind::Alltoall, A::Direct, 1, n),
            (Kind::Alltoall, A::Pairwise, p - 1, (p - 1) * n),
            (Kind::ReduceScatter, A::RecursiveHalving, log, (p - 1) * n),
            (Kind::ReduceScatter, A::Pairwise, p - 1, (p - 1) * n),
            (Kind::Scan, A::RecursiveDoubling, log, log * n),
        ];
        for (kind, algorithm, alphas, bytes) in forms {
            let call = Call { algorithm: Some(algorithm), ..Call::new(kind, n) };
            let time = time_of(application(&call, ranks), &plain());
            assert_eq!(time, alpha_beta(alphas, bytes), "{kind} by {algorithm} among {ranks}");
        }
    }
}

#[test]
fn other_sizes_take_the_time_of_the_closed_form() {
    use Algorithm as A;
    for ranks in [3_u32, 5, 6, 7, 12, 48, 63] {
        let (p, n) = (u64::from(ranks), 48 * 35 * 1024);
        let below = u64::from(ranks.ilog2());
        let power = 1_u64 << below;
        let forms = [
            (Kind::Barrier, A::Dissemination, log2(ranks), 0),
            (Kind::Allgather, A::Bruck, log2(ranks), (p - 1) * n),
            (Kind::Allgather, A::Ring, p - 1, (p - 1) * n),
            (Kind::Alltoall, A::Pairwise, p - 1, (p - 1) * n),
            (Kind::ReduceScatter, A::Pairwise, p - 1, (p - 1) * n),
        ];
        for (kind, algorithm, alphas, bytes) in forms {
            let call = Call { algorithm: Some(algorithm), ..Call::new(kind, n) };
            let time = time_of(application(&call, ranks), &plain());
            assert_eq!(time, alpha_beta(alphas, bytes), "{kind} by {algorithm} among {ranks}");
        }
        // If the number of ranks is not a power of two, the extra ranks need two further rounds of the whole
        // vector. Ranks without an extra partner begin early, so the total can be less.
        for (algorithm, alphas, bytes) in [
            (A::RecursiveDoubling, below, below * n),
            (A::Rabenseifner, 2 * below, 2 * (power - 1) * n / power),
        ] {
            let call = Call { algorithm: Some(algorithm), ..Call::new(Kind::Allreduce, n) };
            let time = time_of(application(&call, ranks), &plain());
            let (least, most) = (alpha_beta(alphas, bytes), alpha_beta(alphas + 2, bytes + 2 * n));
            assert!(least < time && time <= most, "{algorithm} among {ranks}: {time}");
            if matches!(ranks, 7 | 63) {
                assert_eq!(time, most, "{algorithm} among {ranks}");
            }
        }
        let call = Call { algorithm: Some(A::Ring), ..Call::new(Kind::Allreduce, p * 3000) };
        let bytes = 2 * (p - 1) * 3000;
        assert_eq!(time_of(application(&call, ranks), &plain()), alpha_beta(2 * (p - 1), bytes));
    }
}

/// A large message takes two more latencies, for the announcement and the answer.
#[test]
fn rendezvous_costs_two_latencies_and_two_envelopes() {
    let options = Options { eager_limit: 1000, envelope: 40, ..Options::default() };
    let call = Call { algorithm: Some(Algorithm::Ring), ..Call::new(Kind::Allreduce, 8 * 5000) };
    let time = time_of(application(&call, 8), &options);
    assert_eq!(time, alpha_beta(3 * 14, 14 * (5000 + 3 * 40)));
}

#[test]
fn patterns_take_the_time_of_their_closed_form() {
    let shape = Shape { ranks: 6, bytes: 5000, compute: Span::from_us(20), iterations: 4 };
    let message = alpha_beta(1, 5000);
    let time = |pattern| time_of(generate(&pattern, shape).unwrap(), &plain());
    // Batches leave at intervals of the compute time.
    assert_eq!(time(Pattern::Pipeline), Span::from_us(20) * 9 + message * 5);
    // The exchange takes less time than the computation that it overlaps.
    assert_eq!(time(Pattern::Stencil(vec![2, 3])), Span::from_us(20) * 4);
    let call = time_of(application(&Call::new(Kind::Allreduce, 5000), 6), &plain());
    assert_eq!(time(Pattern::AllReduce(None)), (Span::from_us(20) + call) * 4);
    assert!(generate(&Pattern::Stencil(vec![4, 4]), shape).unwrap_err().contains("16 places for 6 ranks"));
}

#[test]
fn the_root_may_be_any_rank() {
    for (kind, algorithm) in [
        (Kind::Bcast, Algorithm::ScatterAllgather),
        (Kind::Reduce, Algorithm::Rabenseifner),
        (Kind::Gather, Algorithm::Binomial),
        (Kind::Scatter, Algorithm::Binomial),
    ] {
        for ranks in [5, 8] {
            let times = (0..ranks).map(|root| {
                let call = Call { root, algorithm: Some(algorithm), ..Call::new(kind, 40_000) };
                time_of(application(&call, ranks), &plain())
            });
            let times: Vec<Span> = times.collect();
            assert!(times.iter().all(|&time| time == times[0]), "{kind}, {ranks} ranks: {times:?}");
        }
    }
}

proptest! {
    /// In each round each message has a receive and each receive has a message, for any size, root and
    /// algorithm. All ranks end after the same number of rounds, or have empty rounds.
    #[test]
    fn sends_and_receives_agree(ranks in 1_u32..40, root in 0_u32..40, bytes in 0_u64..5000) {
        let root = root % ranks;
        for &kind in Kind::ALL {
            for &algorithm in Algorithm::ALL {
                let mut options = Options::default();
                if options.algorithms.set(kind, algorithm).is_err() {
                    continue;
                }
                let call = Call::new(kind, bytes);
                let algorithm = options.algorithms.choose(&call, ranks);
                let (mut sent, mut received) = (Vec::new(), Vec::new());
                for me in 0..ranks {
                    let part = Part { size: ranks, me, root, bytes, counts: &[] };
                    let mut messages = Round::default();
                    for turn in 0.. {
                        if !round(algorithm, kind, &part, turn, &mut messages) {
                            break;
                        }
                        sent.extend(messages.sends.iter().map(|&(to, _)| (me, to)));
                        received.extend(messages.receives.iter().map(|&from| (from, me)));
                    }
                }
                sent.sort_unstable();
                received.sort_unstable();
                prop_assert_eq!(sent, received, "{} by {} among {}", kind, algorithm, ranks);
            }
        }
    }

    /// A binomial or scattered bcast, and the reductions, deliver every byte to every rank that must have it.
    #[test]
    fn any_collective_ends_for_any_size(ranks in 1_u32..24, bytes in 0_u64..200_000, kind in 0..Kind::ALL.len()) {
        let kind = Kind::ALL[kind];
        let counts: Box<[u64]> = match kind {
            Kind::Alltoallv | Kind::Scatterv | Kind::Allgatherv | Kind::ReduceScatter =>
                (0..u64::from(ranks)).map(|rank| bytes / (rank + 1)).collect(),
            _ => Box::default(),
        };
        let call = Call { counts: counts.into(), ..Call::new(kind, bytes) };
        time_of(application(&call, ranks), &Options { eager_limit: 4096, ..Options::default() });
    }
}
