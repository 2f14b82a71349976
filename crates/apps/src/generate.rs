//! Generates applications from patterns: all-reduce, all-to-all, all-gather, reduce-scatter, pipeline, k-means, stencil.

use crate::algorithm::{Algorithm, Kind};
use crate::application::{Application, Call, Op, Program};
use pauseframe_units::{Span, counted};

/// A communication pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// An all-reduce over all ranks; without an algorithm, the message size decides.
    AllReduce(Option<Algorithm>),
    /// An all-to-all with a block of `bytes` for each pair of ranks; without an algorithm, the message size
    /// decides.
    AllToAll(Option<Algorithm>),
    /// An all-gather of a block of `bytes` from each rank; without an algorithm, the message size decides.
    AllGather(Option<Algorithm>),
    /// A reduce-scatter to a block of `bytes` for each rank; without an algorithm, the message size decides.
    ReduceScatter(Option<Algorithm>),
    /// Rank r receives a batch from rank r - 1, computes, and sends the batch to rank r + 1.
    Pipeline,
    /// Rank 0 sends the centres to all ranks, all ranks compute, and rank 0 receives the sum of their
    /// results.
    KMeans,
    /// Neighbours on a periodic grid of these extents exchange `bytes` while each rank computes.
    Stencil(Vec<u32>),
}

impl Pattern {
    /// At least the number of steps of all ranks, and of the requests that they wait for.
    pub fn steps(&self, shape: Shape) -> u64 {
        let messages = match self {
            Pattern::AllReduce(_)
            | Pattern::AllToAll(_)
            | Pattern::AllGather(_)
            | Pattern::ReduceScatter(_) => 1,
            Pattern::Pipeline | Pattern::KMeans => 2,
            // Two sends and two receives along each axis, and a wait for all of them.
            Pattern::Stencil(extents) => 1 + 8 * extents.iter().filter(|&&extent| extent > 1).count() as u64,
        };
        let compute = u64::from(shape.compute > Span::ZERO);
        (messages + compute)
            .saturating_mul(u64::from(shape.iterations))
            .saturating_mul(u64::from(shape.ranks))
    }
}

/// Sizes and times of a pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Number of ranks.
    pub ranks: u32,
    /// Bytes of a message, a vector or a block.
    pub bytes: u64,
    /// Compute time of each iteration and rank.
    pub compute: Span,
    /// Number of iterations; for a pipeline, number of batches.
    pub iterations: u32,
}

/// Generates the application of a pattern.
///
/// # Errors
/// If the stencil's grid has another number of points than there are ranks.
pub fn generate(pattern: &Pattern, shape: Shape) -> Result<Application, String> {
    if shape.ranks == 0 {
        return Err("needs at least one rank".to_owned());
    }
    let (name, program): (&str, Box<dyn Fn(u32) -> Program>) = match pattern {
        Pattern::AllReduce(algorithm) => ("all_reduce", collective(Kind::Allreduce, *algorithm, shape)),
        Pattern::AllToAll(algorithm) => ("all_to_all", collective(Kind::Alltoall, *algorithm, shape)),
        Pattern::AllGather(algorithm) => ("all_gather", collective(Kind::Allgather, *algorithm, shape)),
        Pattern::ReduceScatter(algorithm) => {
            ("reduce_scatter", collective(Kind::ReduceScatter, *algorithm, shape))
        }
        Pattern::Pipeline => ("pipeline", Box::new(move |rank| pipeline(rank, shape))),
        Pattern::KMeans => ("k_means", Box::new(move |_| k_means(shape))),
        Pattern::Stencil(extents) => {
            let places = extents.iter().fold(1_u64, |all, &extent| all.saturating_mul(u64::from(extent)));
            if places != u64::from(shape.ranks) {
                return Err(format!(
                    "a grid of {extents:?} has {} for {}",
                    counted(places, "place"),
                    counted(shape.ranks, "rank")
                ));
            }
            ("stencil", Box::new(move |rank| stencil(rank, extents, shape)))
        }
    };
    Ok(Application::new(name, (0..shape.ranks).map(program).collect()))
}

fn compute(program: &mut Program, shape: Shape) {
    if shape.compute > Span::ZERO {
        program.push(Op::Compute(shape.compute), 0);
    }
}

fn collective(kind: Kind, algorithm: Option<Algorithm>, shape: Shape) -> Box<dyn Fn(u32) -> Program> {
    Box::new(move |_| {
        let mut program = Program::default();
        for _ in 0..shape.iterations {
            compute(&mut program, shape);
            program.push_call(Call { algorithm, ..Call::new(kind, shape.bytes) }, None, 0);
        }
        program
    })
}

fn pipeline(rank: u32, shape: Shape) -> Program {
    let mut program = Program::default();
    for batch in 0..shape.iterations {
        let tag = batch as i32;
        if rank > 0 {
            program.push(receive(rank - 1, tag, None, shape.bytes), 0);
        }
        compute(&mut program, shape);
        if rank + 1 < shape.ranks {
            program.push(send(rank + 1, tag, None, shape.bytes), 0);
        }
    }
    program
}

fn k_means(shape: Shape) -> Program {
    let mut program = Program::default();
    for _ in 0..shape.iterations {
        program.push_call(Call::new(Kind::Bcast, shape.bytes), None, 0);
        compute(&mut program, shape);
        program.push_call(Call::new(Kind::Reduce, shape.bytes), None, 0);
    }
    program
}

/// Posts receives and sends, computes the inner points, then waits for all messages.
fn stencil(rank: u32, extents: &[u32], shape: Shape) -> Program {
    let neighbours = neighbours(rank, extents);
    let mut program = Program::default();
    for iteration in 0..shape.iterations {
        let mut slots = Vec::new();
        for (direction, &(neighbour, _)) in (0..).zip(&neighbours) {
            slots.push(slots.len() as u32);
            program
                .push(receive(neighbour, tag(iteration, direction), slots.last().copied(), shape.bytes), 0);
        }
        for (direction, &(_, opposite)) in (0..).zip(&neighbours) {
            slots.push(slots.len() as u32);
            program.push(send(opposite, tag(iteration, direction), slots.last().copied(), shape.bytes), 0);
        }
        compute(&mut program, shape);
        program.push_waits(&slots, 0);
    }
    program
}

fn tag(iteration: u32, direction: u32) -> i32 {
    (iteration % 0x0100_0000 * 16 + direction) as i32
}

/// For each axis and direction: the previous and the next rank, with ranks numbered row by row.
fn neighbours(rank: u32, extents: &[u32]) -> Vec<(u32, u32)> {
    let mut pairs = Vec::new();
    let mut stride = 1;
    for &extent in extents.iter().rev() {
        let at = rank / stride % extent;
        let moved = |by: u32| rank - at * stride + (at + by) % extent * stride;
        if extent > 1 {
            pairs.push((moved(extent - 1), moved(1)));
            pairs.push((moved(1), moved(extent - 1)));
        }
        stride *= extent;
    }
    pairs
}

fn send(to: u32, tag: i32, request: Option<u32>, bytes: u64) -> Op {
    Op::Send { to, tag, comm: 0, request, bytes }
}

fn receive(from: u32, tag: i32, request: Option<u32>, limit: u64) -> Op {
    Op::Receive { from: Some(from), tag: Some(tag), comm: 0, request, limit }
}
