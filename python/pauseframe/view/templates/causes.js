"use strict";
// Why a port may not send: from the port that asked back to the queue that began it. A pause is asked for because of an egress
// queue; if that queue was held back by a pause itself, the reason is that pause, and so on. A queue is held back by a pause that
// stands, or that has ended so lately that what waited in it cannot have left since.

const CHAIN_MAX = 64;

// [{ lane, port, asked, started, because }, ...] from a paused lane to the root; the last one's `ends` says why it is the last.
function causeChain(run, lane, time) {
  const chain = [], seen = new Set();
  let begun = run.pauseAt(lane, time);
  while (begun >= 0 && chain.length < CHAIN_MAX) {
    const port = run.lanePorts[lane], asked = lastAsked(run, port, lane, run.times[begun]);
    const link = { lane, port, started: run.times[begun], asked: asked < 0 ? null : run.times[asked], because: asked < 0 ? -1 : run.values[asked] };
    chain.push(link);
    if (seen.has(lane)) { link.ends = "circle"; break; }
    seen.add(lane);
    if (link.because < 0) { link.ends = "host"; break; }
    lane = heldLane(run, link.because, run.lanePriorities[lane], link.asked);
    if (lane < 0) { link.ends = "queue"; break; }
    begun = heldBy(run, lane, link.asked);
  }
  return chain;
}

// With pauses of whole links the request is written down for another priority of the same port.
function lastAsked(run, port, lane, time) {
  const own = run.lastEvent(lane, KIND.asked, time);
  if (own >= 0) return own;
  return Math.max(-1, ...run.lanesOf.get(port).map((other) => run.lastEvent(other, KIND.asked, time)));
}

// The pause that holds back what waits in a lane at a time: the event that began it, or -1.
function heldBy(run, lane, time) {
  const begun = run.lastEvent(lane, KIND.paused, time), ended = run.lastEvent(lane, KIND.resumed, time);
  if (begun > ended) return begun;
  const queue = run.lastEvent(lane, KIND.backlog, time), bytes = queue < 0 ? 0 : run.values[queue];
  const drained = (bytes * 8) / (run.rates[run.lanePorts[lane] >> 1] * 1e3);
  return ended >= 0 && run.times[ended] + drained > time ? begun : -1;
}

function heldLane(run, port, priority, time) {
  const lanes = (run.lanesOf.get(port) || []).filter((lane) => heldBy(run, lane, time) >= 0);
  const same = lanes.find((lane) => run.lanePriorities[lane] === priority);
  return same ?? lanes[0] ?? -1;
}

// The queues that the pauses standing at a time go back to, the one with most pauses first: { port, count }.
function rootsOf(run, state) {
  const counts = new Map();
  for (let lane = 0; lane < state.paused.length; lane++) {
    if (!state.paused[lane]) continue;
    const chain = causeChain(run, lane, state.time), last = chain[chain.length - 1];
    const port = last === undefined ? -1 : last.ends === "queue" ? last.because : last.port;
    counts.set(port, (counts.get(port) || 0) + 1);
  }
  counts.delete(-1);
  return [...counts].map(([port, count]) => ({ port, count })).sort((a, b) => b.count - a.count || a.port - b.port);
}

// The deadlocks that stand at a time.
function deadlocksAt(run, time) {
  return run.deadlocks.filter((deadlock) => time >= deadlock.since_us);
}
