"use strict";
// The clock, the controls, and one view a run.

const SPEEDS = [1 / 256, 1 / 64, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4];   // of the whole run in PLAY_SECONDS
const PLAY_SECONDS = 20;
const ROOTS_EVERY_MS = 200;

class View {
  constructor(player, run, number, figure) {
    Object.assign(this, { player, run, number, figure, roots: [], rootsAt: -1e9 });
    this.canvas = figure.querySelector("canvas");
    this.caption = figure.querySelector(".story");
    this.whyButton = figure.querySelector(".why");
    this.whyButton.addEventListener("click", () => { player.explain(this); player.show(); });
    this.map = new FabricMap(this.canvas, run);
    this.tip = figure.querySelector(".tip");
    this.canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    this.listen();
  }

  draw(time) {
    this.time = Math.min(time, this.run.end);
    const state = this.run.seek(this.time), now = performance.now(), { player } = this;
    if (!player.playing || now - this.rootsAt > ROOTS_EVERY_MS) {
      this.roots = rootsOf(this.run, state);
      this.rootsAt = now;
    }
    const deadlocks = deadlocksAt(this.run, this.time), { chosen } = player, own = chosen && chosen.view === this, port = own && !chosen.flow ? chosen.port : -1;
    this.chain = port >= 0 ? chainOfPort(this.run, port, this.time) : [];
    const begins = own && chosen.begun && Math.abs(this.time - chosen.begun.time) < 1e-6 ? [{ port: chosen.port }] : this.roots;
    this.map.draw(state, player.theme, {
      deadlocks, roots: deadlocks.length ? [] : begins, port, chain: this.chain, found: this.found || new Set(), way: own && chosen.way ? chosen.way : [], ends: own && chosen.flow ? [chosen.flow[1], chosen.flow[2]] : [],
    });
    this.tell(state, deadlocks);
  }

  // The same in words.
  tell(state, deadlocks) {
    const { run, roots } = this, paused = state.paused.reduce((sum, one) => sum + one, 0);
    let text = paused ? `${paused} ${paused === 1 ? "queue is" : "queues are"} paused` : "nothing is paused";
    if (deadlocks.length) text = `DEADLOCK since ${formatTime(deadlocks[0].since_us)}: ${deadlocks[0].ports.map((port) => run.portName(port)).join(" → ")} wait for each other, ${deadlocks[0].victims} further queues for them`;
    else if (paused && roots.length) text += `${roots[0].count === paused ? "," : `; ${roots[0].count} of them`} because of ${run.portName(roots[0].port)} (${run.arrow(roots[0].port)})`;
    if (this.time >= run.end) text += run.is_cut ? " · the log was full here, and the run went on" : " · the run has ended";
    if (this.caption.textContent !== text) this.caption.textContent = text;
    this.caption.setAttribute("aria-live", this.player.playing ? "off" : "polite");
    this.whyButton.disabled = roots.length === 0;
  }

  listen() {
    const { canvas, map, player } = this, pointers = new Map();
    let moved = 0, gap = 0;
    const at = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    canvas.addEventListener("wheel", (event) => { event.preventDefault(); map.zoomAt(...at(event), Math.exp(-event.deltaY * 0.0016)); this.touch(); player.redraw(); }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); pointers.set(event.pointerId, at(event)); moved = gap = 0; });
    const release = (event) => pointers.delete(event.pointerId);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("pointerup", (event) => { release(event); if (moved < 5) this.click(...at(event), event.pointerType === "touch" ? 16 : 7); });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = at(event), before = pointers.get(event.pointerId);
      if (!before) { this.hover(x, y); return; }
      moved += Math.hypot(x - before[0], y - before[1]);
      pointers.set(event.pointerId, [x, y]);
      if (pointers.size === 2) {
        const [[x1, y1], [x2, y2]] = [...pointers.values()], now = Math.hypot(x2 - x1, y2 - y1);
        if (gap) map.zoomAt((x1 + x2) / 2, (y1 + y2) / 2, now / gap);
        gap = now;
        this.touch();
      } else if (map.zoom > 1) map.moveTo(map.left + x - before[0], map.top + y - before[1]);
      player.redraw();
    });
    canvas.addEventListener("dblclick", () => { map.zoomAt(0, 0, 1e-9); this.touch(); player.redraw(); });
  }

  // A finger moves the map where there is more of it to see, and scrolls the page where there is not.
  touch() { this.canvas.style.touchAction = this.map.zoom > 1 ? "none" : "pan-y"; }

  click(x, y, near) {
    const found = this.map.hit(x, y, near), { run } = this;
    if (!found) this.player.choose(null);
    else if ("pod" in found) { this.map.toggle(found.pod); this.player.redraw(); }
    else if ("port" in found) this.player.choose({ view: this, port: found.port });
    else this.player.choose({ view: this, port: this.busiest(found.node) });
  }

  // Of a node's ports the one that has most to tell: paused, then by its queue, then by its load.
  busiest(node) {
    const { run } = this;
    let best = -1;
    run.links.forEach((owner, port) => { if (owner === node && (best < 0 || this.rank(port) > this.rank(best))) best = port; });
    return best;
  }

  rank(port) { return this.map.paused[port] * 1e15 + this.map.depth[port] * 100 + this.map.load[port]; }

  hover(x, y) {
    const found = this.map.hit(x, y), { run, map, tip } = this;
    let text = "";
    if (found && "pod" in found) text = `${map.folds.labels[found.pod]}: click to ${map.folds.isFolded(found.pod) ? "open" : "fold"}`;
    else if (found && "node" in found) text = run.nodes[found.node];
    else if (found) text = `${run.portName(found.port)}, ${run.arrow(found.port)}: load ${loadText(map.load[found.port])}, queue ${formatBytes(map.depth[found.port])}${map.paused[found.port] ? ", paused" : ""}`;
    tip.hidden = !text;
    tip.textContent = text;
    const left = x > map.width / 2;
    Object.assign(tip.style, { left: left ? "" : `${x + 12}px`, right: left ? `${map.width - x + 12}px` : "", top: `${y + 14}px` });
  }
}

class Player {
  constructor(runs) {
    this.runs = runs;
    this.end = Math.max(...runs.map((run) => run.end));
    this.step = Math.min(...runs.map((run) => run.every));
    Object.assign(this, { time: 0, playing: false, speed: SPEEDS.indexOf(1 / 8), chosen: null });
    this.find = (id) => document.getElementById(id);
    this.readTheme();
    this.charts = new Charts(this);
    this.views = runs.map((run, number) => new View(this, run, number, document.querySelectorAll("figure.map")[number]));
    this.details = new Details(this, this.find("details"));
    this.finder = new Finder(this, this.find("find"), this.find("found"), this.find("hits"));
    this.listen();
    this.listFlows();
    this.listJumps();
    this.warn();
    this.resize();
    this.open();
  }

  // Goes to the time and the port of the address, such as #t=120.5&port=leaf0:3, or else to the worst moment and its cause.
  open() {
    const asked = new URLSearchParams(location.hash.slice(1)), time = Number(asked.get("t"));
    const named = this.views.map((view) => ({ view, port: view.run.links.findIndex((_, port) => view.run.portName(port) === asked.get("port")) }));
    const chosen = named.find(({ port }) => port >= 0);
    this.choose(null);
    this.seek(asked.has("t") && time >= 0 ? time : this.worst());
    if (chosen) this.choose(chosen);
    else this.explain(this.views.find(({ roots, run, time: now }) => deadlocksAt(run, now).length || roots.length));
  }

  // What must be known of the runs: that they were cut off, or that the log was.
  warn() {
    const cut = this.runs.filter((run) => !["complete", "deadlock"].includes(run.status));
    const warnings = new Set(this.runs.flatMap((run) => run.warnings.filter((text) => text.includes("record.states"))));
    const texts = [
      ...cut.map((run) => `${run.name} was ${run.status}: this is part of the run.`),
      ...[...warnings].map((text) => `${this.runs.filter((run) => run.warnings.includes(text)).map((run) => run.name).join(", ")}: ${text}`),
    ];
    this.find("trouble").textContent = texts.join(" ");
    this.find("trouble").hidden = !texts.length;
  }

  readTheme() {
    const style = getComputedStyle(document.documentElement), read = (name) => style.getPropertyValue(`--${name}`).trim();
    this.theme = { load: [0, 1, 2, 3, 4, 5].map((n) => read(`load${n}`)), queue: [0, 1, 2, 3, 4, 5].map((n) => read(`queue${n}`)) };
    for (const name of ["paper", "ink", "soft", "line", "accent", "pause", "pod", "node", "host", "run0", "run1"]) this.theme[name] = read(name);
  }

  // A deadlock, or else when most queues are paused, or else when most bytes wait.
  worst() {
    const deadlocks = this.runs.flatMap((run) => run.deadlocks.map((deadlock) => deadlock.since_us));
    if (deadlocks.length) return Math.max(0, Math.min(...deadlocks));
    const [run] = [...this.runs].sort((a, b) => b.highest - a.highest);
    return run.mostPaused ?? run.fullest;
  }

  // When the first event of a kind happens; Infinity if none does.
  firstOf(kind) {
    return Math.min(...this.runs.map((run) => run.times[run.kinds.indexOf(kind)] ?? Infinity));
  }

  listen() {
    const { find } = this, slider = find("time");
    slider.addEventListener("input", () => this.seek((slider.value / slider.max) * this.end));
    find("play").addEventListener("click", () => this.toggle());
    find("slower").addEventListener("click", () => this.setSpeed(this.speed - 1));
    find("faster").addEventListener("click", () => this.setSpeed(this.speed + 1));
    document.addEventListener("keydown", (event) => this.key(event));
    window.addEventListener("resize", () => this.resize());
    window.addEventListener("hashchange", () => this.open());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.readTheme(); this.resize(); });
    this.setSpeed(this.speed);
  }

  // Stops, and explains the deadlock, or else the pause that is furthest from the queue that most pauses go back to.
  explain(view) {
    if (this.playing) this.toggle();
    if (!view) return;
    const [deadlock] = deadlocksAt(view.run, view.time), [root] = rootsOf(view.run, view.run.state);
    if (deadlock) this.choose({ view, port: deadlock.ports[0] });
    else if (root) this.choose({ view, port: furthestPort(view.run, view.run.state, root.port) });
  }

  key(event) {
    if (event.target.matches("input:not([type=range]), select") || event.ctrlKey || event.metaKey || event.altKey) return;
    const by = this.step * (event.shiftKey ? 10 : 1);
    const does = {
      " ": () => this.toggle(), ArrowRight: () => this.seek(this.time + by), ArrowLeft: () => this.seek(this.time - by),
      Home: () => this.seek(0), End: () => this.seek(this.end), "+": () => this.setSpeed(this.speed + 1), "-": () => this.setSpeed(this.speed - 1),
      Escape: () => this.choose(null), "/": () => this.find("find").focus(),
    }[event.key];
    if (!does) {
      document.querySelector(`[aria-keyshortcuts="${CSS.escape(event.key)}"]:enabled`)?.click();
      return;
    }
    if (event.key === " " && event.target.matches("button, summary")) return;
    event.preventDefault();
    does();
  }

  setSpeed(number) {
    this.speed = Math.max(0, Math.min(SPEEDS.length - 1, number));
    this.perSecond = (this.end / PLAY_SECONDS) * SPEEDS[this.speed];
    this.find("speed").textContent = `${formatTime(this.perSecond, 2)} per second`;
  }

  toggle() {
    this.playing = !this.playing;
    if (this.playing && this.time >= this.end) this.time = 0;
    this.find("play").textContent = this.playing ? "Pause" : "Play";
    let before = performance.now();
    const tick = (now) => {
      if (!this.playing) return;
      this.go(this.time + (this.perSecond * Math.min(100, now - before)) / 1000);
      before = now;
      if (this.time >= this.end) this.toggle(); else requestAnimationFrame(tick);
    };
    if (this.playing) requestAnimationFrame(tick); else this.redraw();
  }

  seek(time) {
    this.go(time);
    this.redraw();
  }

  go(time) {
    this.time = Math.max(0, Math.min(this.end, time));
    for (const view of this.views) view.draw(this.time);
    this.find("time").value = Math.round((this.time / this.end) * this.find("time").max);
    this.find("clock").textContent = formatTime(this.time, 6);
    this.charts.redraw();
    this.details.update();
    this.finder.update();
  }

  redraw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.views.forEach((view) => view.draw(this.time)); });
  }

  // Chooses a port or flow, and opens the pods in which it and its chain are.
  choose(chosen) {
    this.chosen = chosen;
    if (chosen?.flow) chosen.way = chosen.view.run.wayOf(chosen.flow).map(([, port]) => port);
    if (chosen) {
      const { run, map } = chosen.view, chain = chosen.flow ? [] : chainOfPort(run, chosen.port, chosen.view.time ?? 0);
      const ports = chosen.flow ? [] : [chosen.port, ...chain.map(({ port }) => port)], ends = chosen.flow ? [chosen.flow[1], chosen.flow[2]] : [];
      if (map.folds.reveal([...ends, ...ports.flatMap((port) => [run.owner(port), run.peer(port)])])) map.place();
    }
    this.details.show(chosen);
    this.redraw();
  }

  // Brings the panel onto the screen.
  show() { this.find("details").scrollIntoView({ block: "nearest" }); }

  reveal(chosen) {
    this.choose(chosen);
    this.show();
  }

  resize() {
    for (const view of this.views) view.map.resize();
    this.drawSums();
    this.details.show(this.chosen);
    this.go(this.time);
  }

  drawSums() {
    const box = this.find("sums");
    this.charts.clear(box);
    const charts = [["queues paused", "queues", "paused"], ["waiting in switches", "bytes", "queued"], ["arriving at hosts", "Gb/s", "delivered"]];
    const places = charts.map(() => box.appendChild(element("div")));
    charts.forEach(([title, unit, column], number) => {
      const [times, values] = joined(this.runs.map((run) => [run.sums.time, run.sums[column]]));
      const lines = values.map((data, which) => ({ label: this.runs.length > 1 ? `${"AB"[which]} ${this.runs[which].name}` : title, colour: this.theme[`run${which}`], data }));
      this.charts.add(places[number], { title, unit, times, lines });
    });
  }

  listJumps() {
    const add = (text, time, key) => {
      const button = element("button", text, { type: "button", "aria-keyshortcuts": key });
      button.addEventListener("click", () => this.seek(time));
      this.find("jumps").append(button);
    };
    const first = this.firstOf(KIND.paused);
    if (first < Infinity) add("first pause", first, "f");
    this.runs.forEach((run, number) => {
      const name = this.runs.length > 1 ? ` of ${"AB"[number]}` : "", most = Math.max(...run.sums.paused);
      if (most > 0) add(`most pauses${name}`, run.mostPaused, "m");
      run.deadlocks.slice(0, 4).forEach((deadlock, which) => add(`deadlock${run.deadlocks.length > 1 ? ` ${which + 1}` : ""}${name}`, Math.max(0, deadlock.since_us), "d"));
    });
  }

  listFlows() {
    const select = this.find("flow"), search = this.find("find-flow");
    const fill = () => {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      select.replaceChildren(element("option", "choose a flow", { value: "" }));
      this.views.forEach(({ run, number }) => {
        const text = (flow) => `${this.views.length > 1 ? `${"AB"[number]} ` : ""}${flow[0]}: ${run.nodes[flow[1]]} → ${run.nodes[flow[2]]}${flow[6] === null ? ` ${flow[9]}` : ` × ${+flow[6].toPrecision(3)}`}`;
        const found = run.flows.map((flow, place) => [text(flow), place]).filter(([name]) => words.every((word) => name.toLowerCase().includes(word)));
        for (const [name, place] of found.slice(0, 300)) select.append(element("option", name, { value: `${number} ${place}` }));
      });
    };
    search.addEventListener("input", fill);
    select.addEventListener("change", () => {
      const [number, place] = select.value.split(" ").map(Number);
      if (select.value) this.choose({ view: this.views[number], flow: this.views[number].run.flows[place] });
    });
    fill();
  }
}

(async () => {
  const begin = performance.now();
  try {
    const runs = await Promise.all(JSON.parse(document.getElementById("runs").textContent).map((raw) => Run.decode(raw)));
    window.player = new Player(runs);
    document.documentElement.dataset.ready = String(Math.round(performance.now() - begin));
  } catch (error) {
    document.getElementById("trouble").textContent = `The page could not be built: ${error.message}`;
    document.getElementById("trouble").hidden = false;
    throw error;
  }
})();
