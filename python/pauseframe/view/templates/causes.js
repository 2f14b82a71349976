"use strict";
// Why a port may not send: from the port that asked back to the queue that began it. A pause is asked for because of an egress
// queue; if that queue was held back by a pause itself, the reason is that pause, and so on. A queue is held back by a pause that
// stands, or that has ended so lately that what waited in it cannot have left since.

const CHAIN_MAX = 64;

// [{ slot, port, asked, started, because }, ...] from a paused slot to the root; the last one's `ends` says why it is the last.
function causeChain(run, slot, time) {
  const chain = [], seen = new Set();
  let begun = run.pauseAt(slot, time);
  while (begun >= 0 && chain.length < CHAIN_MAX) {
    const port = run.slotPorts[slot], asked = lastAsked(run, port, slot, run.times[begun]);
    const link = { slot, port, started: run.times[begun], asked: asked < 0 ? null : run.times[asked], because: asked < 0 ? -1 : run.values[asked] };
    chain.push(link);
    if (seen.has(slot)) { link.ends = "circle"; break; }
    seen.add(slot);
    if (link.because < 0) { link.ends = "host"; break; }
    slot = heldSlot(run, link.because, run.slotPriorities[slot], link.asked);
    if (slot < 0) { link.ends = "queue"; break; }
    begun = heldBy(run, slot, link.asked);
  }
  return chain;
}

// With pauses of whole links the request is written down for another priority of the same port.
function lastAsked(run, port, slot, time) {
  const own = run.lastEvent(slot, KIND.asked, time);
  if (own >= 0) return own;
  return Math.max(-1, ...run.slotsOf.get(port).map((other) => run.lastEvent(other, KIND.asked, time)));
}

// The pause that holds back what waits in a slot at a time: the event that began it, or -1.
function heldBy(run, slot, time) {
  const begun = run.lastEvent(slot, KIND.paused, time), ended = run.lastEvent(slot, KIND.resumed, time);
  if (begun > ended) return begun;
  const queue = run.lastEvent(slot, KIND.backlog, time), bytes = queue < 0 ? 0 : run.values[queue];
  const drained = (bytes * 8) / (run.rates[run.slotPorts[slot]] * 1e3);
  return ended >= 0 && run.times[ended] + drained > time ? begun : -1;
}

function heldSlot(run, port, priority, time) {
  const slots = (run.slotsOf.get(port) || []).filter((slot) => heldBy(run, slot, time) >= 0);
  const same = slots.find((slot) => run.slotPriorities[slot] === priority);
  return same ?? slots[0] ?? -1;
}

// The port whose queue a chain goes back to, or -1.
function rootOf(chain) {
  const last = chain[chain.length - 1];
  return last === undefined ? -1 : last.ends === "queue" ? last.because : last.port;
}

// Of the ports whose pauses go back to `root`, the one with the longest chain; -1 if there is none.
function furthestPort(run, state, root) {
  let best = -1, length = 0;
  for (let slot = 0; slot < state.paused.length; slot++) {
    if (!state.paused[slot]) continue;
    const chain = causeChain(run, slot, state.time);
    if (chain.length > length && rootOf(chain) === root) { best = run.slotPorts[slot]; length = chain.length; }
  }
  return best;
}

// The queues that the pauses standing at a time go back to, the one with most pauses first: { port, count }.
function rootsOf(run, state) {
  const counts = new Map();
  for (let slot = 0; slot < state.paused.length; slot++) {
    if (!state.paused[slot]) continue;
    const port = rootOf(causeChain(run, slot, state.time));
    counts.set(port, (counts.get(port) || 0) + 1);
  }
  counts.delete(-1);
  return [...counts].map(([port, count]) => ({ port, count })).sort((a, b) => b.count - a.count || a.port - b.port);
}

// The deadlocks that stand at a time.
function deadlocksAt(run, time) {
  return run.deadlocks.filter((deadlock) => time >= deadlock.since_us);
}

// The chain of the first paused slot of a port, numbered from 1: [{ port, number, ... }]. It ends at a deadlock, whose cause is its
// circle: a port in one has no chain.
function chainOfPort(run, port, time) {
  const stuck = new Set(deadlocksAt(run, time).flatMap(({ ports }) => ports));
  const slot = (run.slotsOf.get(port) || []).find((one) => run.pauseAt(one, time) >= 0);
  if (slot === undefined || stuck.has(port)) return [];
  const chain = causeChain(run, slot, time), end = chain.findIndex((link) => stuck.has(link.port));
  if (end >= 0) chain.splice(end, chain.length, { ...chain[end], ends: "deadlock" });
  return chain.map((link, index) => ({ ...link, number: index + 1 }));
}

// When anything is paused, up to a time: [begin, end, the event that begins it] each.
function pausedSpans(run, time) {
  const paused = new Set(), spans = [];
  for (let i = 0; i < run.times.length && run.times[i] <= time; i++) {
    if (run.kinds[i] === KIND.paused) {
      if (paused.size === 0) spans.push([run.times[i], time, i]);
      paused.add(run.slots[i]);
    } else if (run.kinds[i] === KIND.resumed && paused.delete(run.slots[i]) && paused.size === 0) spans.at(-1)[1] = run.times[i];
  }
  return spans;
}

// Where the storm of a time began because of `root`: its first request { time, asker, asked, host, stops }, or null; `stops` is when
// the port that was asked stopped. Two spans of pauses are
// one storm if the break between them is no longer than either.
function beginningOf(run, root, time) {
  const spans = pausedSpans(run, time);
  if (!spans.length) return null;
  let [begin, , event] = spans.pop();
  for (; spans.length; [begin, , event] = spans.pop()) {
    const [from, to] = spans.at(-1);
    if (begin - to > Math.max(time - begin, to - from)) break;
  }
  const first = lastAsked(run, run.slotPorts[run.slots[event]], run.slots[event], begin), since = first < 0 ? begin : run.times[first];
  for (let i = countUpTo(run.times, since - 1e-9); i < run.times.length && run.times[i] <= time; i++) {
    if (run.kinds[i] !== KIND.asked) continue;
    const port = run.slotPorts[run.slots[i]], cause = run.values[i] < 0 ? port : run.values[i];
    if (cause !== root) continue;
    const stop = run.times.findIndex((_, j) => j > i && run.kinds[j] === KIND.paused && run.slots[j] === run.slots[i]);
    return { time: run.times[i], asker: run.peer(port), asked: run.owner(port), host: run.values[i] < 0, stops: stop < 0 ? null : run.times[stop] };
  }
  return null;
}
