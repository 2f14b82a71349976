"use strict";
// What is said about the port or flow that was chosen: numbers at the time that is shown, why it is paused, its time lines.

// Of so many ports of a flow's way there are time lines.
const LINES_OF_WAY = 8;

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function rows(pairs) {
  const list = element("dl");
  for (const [name, value] of pairs) list.append(element("dt", name), element("dd", value));
  return list;
}

class Details {
  constructor(player, panel) {
    this.player = player;
    this.panel = panel;
    this.live = panel.querySelector(".live");
    this.spoken = document.getElementById("spoken");
    this.lines = panel.querySelector(".lines");
  }

  // Something else is chosen: { view, port } or { view, flow }, or nothing.
  show(chosen) {
    const { player } = this;
    this.chosen = chosen;
    player.charts.clear(this.lines);
    this.panel.classList.toggle("empty", !chosen);
    if (!chosen) {
      this.panel.querySelector("h2").textContent = "Nothing chosen";
      this.live.replaceChildren(element("p", "Click a link, a node or a found port for its time lines and, while it is paused, the chain back to the cause.", { class: "note" }));
      this.speak("");
      return;
    }
    const { run } = chosen.view;
    this.panel.querySelector("h2").textContent = (player.views.length > 1 ? `${"AB"[chosen.view.number]}: ` : "") +
      (chosen.flow ? `flow ${chosen.flow[0]}` : `port ${run.portName(chosen.port)}`);
    const ports = chosen.flow ? this.endPorts(run, chosen.flow) : [chosen.port];
    if (chosen.flow) this.addRate(run, chosen.flow);
    for (const port of ports) this.addLines(run, port, ports.length > 1);
    this.update();
  }

  // The first and the last queue of a flow's way; with recorded paths all of it, unless it has very many.
  endPorts(run, flow) {
    const way = run.wayOf(flow).filter(([back]) => !back).map(([, port]) => port), ports = run.portsOf(flow[1]);
    const first = ports.find((port) => way.length && run.peer(port) === run.owner(way[0])) ?? ports[0];
    return way.length && way.length <= LINES_OF_WAY ? [first, ...way] : [first, run.links.indexOf(flow[2]) ^ 1];
  }

  // The ports of switches that a flow used, in the order of its way, each to be clicked.
  way(view, flow) {
    const { run } = view, steps = run.wayOf(flow);
    return [0, 1].flatMap((back) => {
      const own = steps.filter((step) => step[0] === back), list = element("ol", undefined, { class: "chain" });
      for (const [, port, packets, marks, moves, late] of own) {
        const item = list.appendChild(element("li")), counts = [[marks, "marked"], [moves, "moved from another port"], [late, "late"]].filter(([count]) => count);
        item.append(this.button(view, port), ` (${run.arrow(port)}): ${packets} packets${counts.map(([count, what]) => `, ${count} ${what}`).join("")}`);
      }
      return own.length ? [element("h3", back ? "Way back" : "Way"), list] : [];
    });
  }

  addLines(run, port, named) {
    const { theme } = this.player, slots = run.slotsOf.get(port) || [];
    if (!slots.length) {
      this.lines.append(element("p", `${run.portName(port)} (${run.arrow(port)}): the log of states has nothing of this port: no queue of 4 KB, no load of 20 %, and no pause.`, { class: "note" }));
      return;
    }
    for (const slot of slots) {
      const { depth, load, pauses, marks, drops, sent, received } = run.timeLines(slot);
      const [times, [queue, busy]] = joined([depth, load]);
      const title = `${run.portName(port)}, priority ${run.slotPriorities[slot]}`, until = [...times, run.end], close = (data) => [...data, data[data.length - 1]];
      this.lines.append(element("h3", `${named ? `${title}, ${run.arrow(port)}` : title}: ${pauses.length} ${pauses.length === 1 ? "pause" : "pauses"} (shaded), ${marks} marks, ${drops} drops${this.counted(sent, received)}`));
      const box = this.lines.appendChild(element("div", undefined, { class: "pair" }));
      const left = box.appendChild(element("div")), right = box.appendChild(element("div"));
      this.player.charts.add(left, { title: "queue, largest of an interval, to an eighth or 4 KB", unit: "bytes", times: until, lines: [{ label: "queue", colour: theme.queue[4], data: close(queue) }], pauses, stepped: true });
      this.player.charts.add(right, { title: "load of the link, to a fifth", unit: "%", times: until, lines: [{ label: "load", colour: theme.load[theme.load.length - 2], data: close(busy) }], range: [0, 105], pauses, stepped: true });
      if (sent[0].length + received[0].length > 2) this.addNotifications(sent, received);
    }
  }

  counted(sent, received) {
    const sum = ([, values]) => values.reduce((all, value) => all + value, 0);
    return sum(sent) + sum(received) ? `, ${sum(sent)} CNPs sent, ${sum(received)} received` : "";
  }

  addNotifications(sent, received) {
    const { theme } = this.player, [times, [out, into]] = joined([sent, received]);
    const lines = [{ label: "sent", colour: theme.queue[4], data: out }, { label: "received", colour: theme.accent, data: into }];
    this.player.charts.add(this.lines.appendChild(element("div")), { title: "CNPs of each interval", unit: "packets", times, lines, stepped: true });
  }

  // The rate of a flow's queue pair, if the run has recorded it.
  addRate(run, flow) {
    const rate = run.rates_of_flows[flow[0]];
    if (!rate) return;
    const { theme } = this.player, [times, data] = rate;
    this.player.charts.add(this.lines.appendChild(element("div")), { title: "rate of the queue pair", unit: "Gb/s", times, lines: [{ label: "rate", colour: theme.accent, data }] });
  }

  // The time has changed.
  update() {
    if (!this.chosen) return;
    const { view, flow, port } = this.chosen, { run } = view;
    this.live.replaceChildren(...(flow ? this.aboutFlow(view, flow) : this.aboutPort(view, port)));
    if (this.player.playing) return;
    const steps = [...this.live.querySelectorAll("ol.chain li, .note")].map((step) => step.textContent);
    this.speak(`${this.panel.querySelector("h2").textContent}: ${steps.join(" ")}`);
  }

  // For screen readers, which are told of the chain when it changes while the clock stands.
  speak(text) {
    if (this.spoken.textContent !== text) this.spoken.textContent = text;
  }

  aboutPort(view, port) {
    const { run, map } = view, gbps = run.rates[port], root = view.roots.find((one) => one.port === port);
    return [
      ...this.began(view),
      ...this.circle(view, port),
      ...this.chain(view, port),
      rows([
        ["from → to", run.arrow(port)],
        ["rate", `${+gbps.toPrecision(4)} Gb/s`],
        ["load", loadText(map.load[port])],
        ["queue", formatBytes(map.depth[port])],
        ["state", map.paused[port] ? "paused" : "may send"],
        ...(root ? [["pauses that go back to it", String(root.count)]] : []),
      ]),
    ];
  }

  // Of a port in a deadlock: who waits for whom.
  circle(view, port) {
    const deadlock = deadlocksAt(view.run, view.time).find((one) => one.ports.includes(port));
    if (!deadlock) return [];
    const list = element("ol", undefined, { class: "chain" }), { ports } = deadlock;
    ports.forEach((own, place) => {
      const item = list.appendChild(element("li"));
      item.append(this.button(view, own), " waits for ", this.button(view, ports[(place + 1) % ports.length]), place + 1 < ports.length ? "" : ", where the circle began");
    });
    const starts = ports.map((own) => Math.min(...(view.run.slotsOf.get(own) || []).map((slot) => view.run.pauseAt(slot, view.time)).filter((event) => event >= 0).map((event) => view.run.times[event])));
    const first = Math.min(...starts);
    return [element("h3", `Deadlock since ${formatTime(deadlock.since_us)}`), list, ...(Number.isFinite(first) ? [this.beginning(view, ports[starts.indexOf(first)], { time: first })] : [])];
  }

  // What began where "Go to where it began" has led, while its instant is shown.
  began(view) {
    const { begun } = this.chosen, { run } = view;
    if (!begun || begun.asker === undefined || Math.abs(view.time - begun.time) > 1e-6) return [];
    const why = begun.host ? "because its own receive buffer was full" : `because of its queue ${run.portName(this.chosen.port)}, which held ${formatBytes(view.map.depth[this.chosen.port])}`;
    return [element("p", `Here it began, at ${formatTime(begun.time)}: ${run.nodes[begun.asker]} asked ${run.nodes[begun.asked]} to stop, ${why}.${begun.stops === null ? "" : ` The request took effect at ${formatTime(begun.stops)}.`} That is the first pause of this storm that goes back to it.`, { class: "began" })];
  }

  aboutFlow(view, flow) {
    const { run } = view, [, source, destination, bytes, start, finish, slowdown, marks, timeouts, status, workload, sent, received] = flow;
    return [
      rows([
        ["from → to", `${run.nodes[source]} → ${run.nodes[destination]}`],
        ["workload", workload],
        ["size", bytes === null ? "until stopped" : formatBytes(bytes)],
        ["start", formatTime(start)],
        ["end", finish === null ? status : `${formatTime(finish)} (${status})`],
        ["slowdown", slowdown === null ? "–" : `× ${+slowdown.toPrecision(3)}`],
        ["CE packets", String(marks)],
        ["timeouts", String(timeouts)],
        ...(sent + received ? [["CNPs sent, received", `${sent}, ${received}`]] : []),
      ]),
      ...this.way(view, flow),
      ...this.chain(view, this.endPorts(run, flow)[0]),
    ];
  }

  // From the pause of a port to the queue that began it, each step to be clicked.
  chain(view, port) {
    const { run } = view, slots = (run.slotsOf.get(port) || []).filter((slot) => run.pauseAt(slot, view.time) >= 0);
    if (!slots.length) return this.chosen.begun ? [] : [element("p", `${run.portName(port)} is not paused at this time.`, { class: "note" })];
    const list = element("ol", undefined, { class: "chain" }), links = chainOfPort(run, port, view.time);
    if (!links.length) return [];
    for (const link of links) {
      const item = list.appendChild(element("li"));
      item.append(this.button(view, link.port), ` stopped at ${formatTime(link.started)}: `);
      if (link.ends === "host") item.append(`${run.nodes[run.peer(link.port)]} asked for it because its own receive buffer was full. The storm begins there.`);
      else if (link.ends === "deadlock") item.append("it is in the deadlock.");
      else if (link.ends === "circle") item.append("this is where we began: the queues wait for each other.");
      else item.append(`${run.nodes[run.peer(link.port)]} asked at ${formatTime(link.asked)}, because of its queue `, this.button(view, link.because), link.ends === "queue" ? ", which no pause held back: more came in than its link carries. The storm begins there." : ", which a pause held back:");
    }
    return [element("h3", "Why it is paused"), list, ...(["circle", "deadlock"].includes(links.at(-1).ends) ? [] : [this.beginning(view, rootOf(links), beginningOf(run, rootOf(links), view.time))])];
  }

  // Goes to the place and the time at which it began.
  beginning(view, port, begun) {
    const made = element("button", "Go to where it began", { type: "button", "aria-keyshortcuts": "b" });
    made.addEventListener("click", () => {
      this.player.reveal({ view, port, begun });
      if (begun) this.player.seek(begun.time);
    });
    return made;
  }

  button(view, port) {
    const made = element("button", view.run.portName(port), { type: "button", class: "link" });
    made.addEventListener("click", () => this.player.choose({ view, port }));
    return made;
  }
}
