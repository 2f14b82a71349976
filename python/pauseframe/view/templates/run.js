"use strict";
// One run: its arrays, and its state at any time. Events are in the order of time; the state at a time is the nearest key
// frame before it and the events from there on.

const KIND = { backlog: 0, load: 1, marks: 2, drops: 3, asked: 4, paused: 5, resumed: 6, cnpsSent: 7, cnpsReceived: 8 };
const KEY_FRAMES = 64;
const TICKS = 2 ** 32 - 1;

async function unpack(text, Type) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Type(await new Response(stream).arrayBuffer());
}

// The number of elements of an ascending array that are at most `value`.
function countUpTo(array, value) {
  let low = 0, high = array.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (array[middle] <= value) low = middle + 1; else high = middle;
  }
  return low;
}

class Run {
  static async decode(raw) {
    const run = new Run();
    Object.assign(run, raw);
    const parts = { hosts: Uint8Array, places: Float32Array, links: Uint32Array, rates: Float32Array, slotPorts: Uint32Array, slotPriorities: Uint8Array };
    for (const [name, Type] of Object.entries(parts)) run[name] = await unpack(raw[name], Type);
    const { steps, kinds, slots, values } = raw.events;
    run.kinds = await unpack(kinds, Uint8Array);
    run.slots = await unpack(slots, Uint32Array);
    run.values = await unpack(values, Float32Array);
    run.times = new Float64Array(run.kinds.length);
    let tick = 0;
    (await unpack(steps, Uint32Array)).forEach((step, i) => { tick += step; run.times[i] = (tick / TICKS) * run.end; });
    // Times of events are rounded to ticks: at the begin of a deadlock its last pause must be there.
    for (const deadlock of run.deadlocks) deadlock.since_us = Math.ceil((deadlock.since_us / run.end) * TICKS) / TICKS * run.end;
    run.prepare();
    return run;
  }

  prepare() {
    const count = this.slotPorts.length, ports = this.links.length;
    this.portNumbers = new Uint16Array(ports);
    const next = new Uint16Array(this.nodes.length);
    this.links.forEach((node, port) => { this.portNumbers[port] = next[node]++; });
    this.slotsOf = new Map();
    this.slotPorts.forEach((port, slot) => { (this.slotsOf.get(port) || this.slotsOf.set(port, []).get(port)).push(slot); });
    this.state = { at: 0, load: new Uint8Array(count), depth: new Float32Array(count), paused: new Uint8Array(count), flash: new Uint8Array(count) };
    this.indexBySlot(count);
    this.makeKeyFrames();
    this.sumUp();
  }

  // The events of each slot: `own[first[slot]] ... own[first[slot + 1]]`, ascending.
  indexBySlot(count) {
    this.first = new Uint32Array(count + 1);
    for (const slot of this.slots) this.first[slot + 1]++;
    for (let slot = 0; slot < count; slot++) this.first[slot + 1] += this.first[slot];
    const next = this.first.slice();
    this.own = new Uint32Array(this.slots.length);
    this.slots.forEach((slot, event) => { this.own[next[slot]++] = event; });
  }

  makeKeyFrames() {
    this.stride = Math.max(256, Math.ceil(this.kinds.length / KEY_FRAMES));
    this.frames = [];
    for (let event = 0; event <= this.kinds.length; event += this.stride) {
      this.apply(event);
      const { load, depth, paused } = this.state;
      this.frames.push({ load: load.slice(), depth: depth.slice(), paused: paused.slice() });
    }
    this.seek(0);
  }

  // Applies the events up to number `until`.
  apply(until) {
    const { state, kinds, slots, values } = this;
    for (let i = state.at; i < until; i++) {
      const slot = slots[i];
      switch (kinds[i]) {
        case KIND.backlog: state.depth[slot] = values[i]; break;
        case KIND.load: state.load[slot] = Math.round(values[i] * 10); break;
        case KIND.paused: state.paused[slot] = state.flash[slot] = 1; break;
        case KIND.resumed: state.paused[slot] = 0; break;
      }
    }
    state.at = until;
  }

  // Brings the state to a time. What was paused for a moment since the last call stays visible for this one.
  seek(time) {
    const until = countUpTo(this.times, time), { state } = this;
    state.flash.fill(0);
    if (until < state.at || until - state.at > this.stride) {
      const number = Math.min(Math.floor(until / this.stride), this.frames.length - 1), frame = this.frames[number];
      for (const part of ["load", "depth", "paused"]) state[part].set(frame[part]);
      state.at = number * this.stride;
      this.apply(until);
      state.flash.fill(0);
    } else {
      this.apply(until);
    }
    state.time = time;
    return state;
  }

  // Over the whole run, `points` times: slots paused, bytes queued at switches, Gb/s into hosts.
  sumUp(points = 900) {
    const { kinds, slots, values, times } = this, count = this.slotPorts.length;
    const load = new Float64Array(count), depth = new Float64Array(count), paused = new Uint8Array(count);
    const toHost = Uint8Array.from(this.slotPorts, (port) => this.hosts[this.peer(port)]);
    const atSwitch = Uint8Array.from(this.slotPorts, (port) => 1 - this.hosts[this.owner(port)]);
    const columns = { time: [], paused: [], queued: [], delivered: [] };
    let standing = 0, queued = 0, delivered = 0, most = 0, i = 0, highest = 0;
    this.mostPaused = null; // the time at which most slots are paused at once
    for (let point = 0; point <= points; point++) {
      const time = (this.end * point) / points;
      most = standing;
      for (; i < times.length && times[i] <= time; i++) {
        const slot = slots[i], value = values[i];
        if (kinds[i] === KIND.paused && !paused[slot]) {
          paused[slot] = 1;
          most = Math.max(most, ++standing);
          if (standing > highest) { highest = standing; this.mostPaused = times[i]; }
        }
        else if (kinds[i] === KIND.resumed && paused[slot]) { paused[slot] = 0; standing--; }
        else if (kinds[i] === KIND.backlog) { queued += atSwitch[slot] * (value - depth[slot]); depth[slot] = value; }
        else if (kinds[i] === KIND.load) {
          if (toHost[slot]) delivered += (value - load[slot]) * this.rates[this.slotPorts[slot]];
          load[slot] = value;
        }
      }
      columns.time.push(time);
      columns.paused.push(most);
      columns.queued.push(Math.max(0, queued));
      columns.delivered.push(Math.max(0, delivered));
    }
    this.sums = columns;
    this.highest = highest;
    const fullest = Math.max(...columns.queued);
    this.fullest = fullest > 0 ? columns.time[columns.queued.indexOf(fullest)] : 0;
  }

  // The ports of switches that a flow used, by their distance from its source, and back from its destination: see the class Playback.
  wayOf(flow) {
    const steps = this.paths[flow[0]] || [];
    return [0, 1].flatMap((back) => {
      const left = new Set(steps.filter((step) => step[0] === back)), found = [];
      for (let nodes = new Set(this.portsOf(flow[1 + back]).map((port) => this.peer(port))); left.size;) {
        const here = [...left].filter(([, port]) => nodes.has(this.owner(port)));
        const next = here.length ? here : [...left];
        next.forEach((step) => left.delete(step));
        found.push(...next);
        nodes = new Set(next.map(([, port]) => this.peer(port)));
      }
      return found;
    });
  }

  // All ports of a node.
  portsOf(node) {
    const found = [];
    for (let port = this.links.indexOf(node); port >= 0; port = this.links.indexOf(node, port + 1)) found.push(port);
    return found;
  }

  owner(port) { return this.links[port]; }
  peer(port) { return this.links[port ^ 1]; }
  portName(port) {
    const name = this.names_of_ports ? this.names_of_ports[port] : this.portNumbers[port];
    return `${this.nodes[this.owner(port)]}:${name}`;
  }
  arrow(port) { return `${this.nodes[this.owner(port)]} → ${this.nodes[this.peer(port)]}`; }

  // The last event of `kind` of a slot up to `time`, or -1.
  lastEvent(slot, kind, time) {
    for (let place = this.placeOf(slot, time); place >= this.first[slot]; place--) {
      if (this.kinds[this.own[place]] === kind) return this.own[place];
    }
    return -1;
  }

  placeOf(slot, time) {
    const own = this.own.subarray(this.first[slot], this.first[slot + 1]);
    let low = 0, high = own.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.times[own[middle]] <= time) low = middle + 1; else high = middle;
    }
    return this.first[slot] + low - 1;
  }

  // The pause of a slot that stands at a time: the event that began it, or -1.
  pauseAt(slot, time) {
    const begun = this.lastEvent(slot, KIND.paused, time), ended = this.lastEvent(slot, KIND.resumed, time);
    return begun > ended ? begun : -1;
  }

  // A count of one interval, and nothing after it.
  addCount([times, values], time, value) {
    if (times[times.length - 1] === time) values[values.length - 1] = value;
    else { times.push(time); values.push(value); }
    times.push(time + this.every);
    values.push(0);
  }

  // Depth, load and pauses of a slot as steps: [times, values] each.
  timeLines(slot) {
    const lines = { depth: [[0], [0]], load: [[0], [0]], pauses: [], marks: 0, drops: 0, sent: [[0], [0]], received: [[0], [0]] };
    for (let place = this.first[slot]; place < this.first[slot + 1]; place++) {
      const event = this.own[place], time = this.times[event], value = this.values[event];
      switch (this.kinds[event]) {
        case KIND.backlog: lines.depth[0].push(time); lines.depth[1].push(value); break;
        case KIND.load: lines.load[0].push(time); lines.load[1].push(value * 100); break;
        case KIND.paused: lines.pauses.push([time, this.end]); break;
        case KIND.resumed: if (lines.pauses.length) lines.pauses[lines.pauses.length - 1][1] = time; break;
        case KIND.marks: lines.marks += value; break;
        case KIND.drops: lines.drops += value; break;
        case KIND.cnpsSent: this.addCount(lines.sent, time, value); break;
        case KIND.cnpsReceived: this.addCount(lines.received, time, value); break;
      }
    }
    return lines;
  }
}
