"use strict";
// The fabric on a canvas: links by load, queues by depth, pauses as arrows from who asked to who stopped.

const MARGIN = 14;
const PAIRS_MAX = 1200;      // with more links, one line stands for both directions
const LABEL_HEIGHT = 13;
const DEPTH_STEPS = [1, 16e3, 64e3, 256e3, 1e6, 4e6];

// A load in tenths. The log has no load below two tenths.
const loadText = (tenths) => (tenths ? `${tenths * 10} %` : "below 20 %");

class FabricMap {
  constructor(canvas, run) {
    Object.assign(this, { canvas, run, pen: canvas.getContext("2d"), zoom: 1, left: 0, top: 0, alone: run.links.length / 2 > PAIRS_MAX });
    const ports = run.links.length, nodes = run.nodes.length;
    this.load = new Uint8Array(ports);
    this.depth = new Float32Array(ports);
    this.paused = new Uint8Array(ports);
    this.xs = new Float32Array(nodes);
    this.ys = new Float32Array(nodes);
    this.folds = new Folds(run);
    // What stays as it is while the run is played: drawn again only when the map has moved.
    this.layers = [document.createElement("canvas"), document.createElement("canvas")];
  }

  resize() {
    const { canvas } = this, ratio = window.devicePixelRatio || 1;
    this.width = canvas.clientWidth;
    this.height = canvas.clientHeight;
    canvas.width = Math.round(this.width * ratio);
    canvas.height = Math.round(this.height * ratio);
    this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    for (const layer of this.layers) Object.assign(layer, { width: canvas.width, height: canvas.height });
    this.place();
  }

  place() {
    const { run, width, height, zoom } = this, { places, boxes } = this.folds.arrange();
    for (let node = 0; node < run.nodes.length; node++) {
      this.xs[node] = this.x(places[2 * node]);
      this.ys[node] = this.y(places[2 * node + 1]);
    }
    this.boxes = (boxes.length ? boxes : run.pods).map(([x, y, w, h]) => [this.x(x), this.y(y), this.x(x + w) - this.x(x), this.y(y + h) - this.y(y)]);
    this.unit = Math.max(2.4, Math.min(26, this.folds.closest() * (width - 2 * MARGIN) * zoom * 0.34));
    this.unit = Math.min(this.unit, height / 22 * Math.max(1, zoom));
    this.moved = true;
  }

  // Folds a pod, or opens it.
  toggle(pod) {
    this.folds.toggle(pod);
    this.place();
  }

  x(share) { return this.left + (MARGIN + share * (this.width - 2 * MARGIN)) * this.zoom; }
  y(share) { return this.top + (MARGIN + share * (this.height - 2 * MARGIN)) * this.zoom; }

  zoomAt(x, y, factor) {
    const zoom = Math.max(1, Math.min(60, this.zoom * factor)), by = zoom / this.zoom;
    this.zoom = zoom;
    this.moveTo(x - (x - this.left) * by, y - (y - this.top) * by);
  }

  moveTo(left, top) {
    this.left = Math.min(0, Math.max(this.width * (1 - this.zoom), left));
    this.top = Math.min(0, Math.max(this.height * (1 - this.zoom), top));
    this.place();
  }

  // What slots say, by port: of several priorities the sum of loads and depths.
  gather(state) {
    this.load.fill(0);
    this.depth.fill(0);
    this.paused.fill(0);
    const { slotPorts } = this.run;
    for (let slot = 0; slot < slotPorts.length; slot++) {
      const port = slotPorts[slot];
      this.load[port] = Math.min(10, this.load[port] + state.load[slot]);
      this.depth[port] += state.depth[slot];
      this.paused[port] |= state.paused[slot] | state.flash[slot];
    }
  }

  // A page that is not shown, in a folded frame or a window being made, has a map of no size, which no canvas takes.
  draw(state, theme, shown) {
    const { pen, canvas } = this;
    if (!canvas.width || !canvas.height) return;
    this.gather(state);
    this.theme = theme;
    pen.clearRect(0, 0, this.width, this.height);
    pen.lineCap = "round";
    if (this.moved) this.drawLayers();
    this.moved = false;
    const [ground, nodes] = this.layers;
    pen.drawImage(ground, 0, 0, this.width, this.height);
    this.drawLinks(1, 6);
    pen.drawImage(nodes, 0, 0, this.width, this.height);
    this.drawFound(new Set([...shown.found, ...shown.way]));
    this.drawPauses();
    this.drawQueues();
    this.drawDrops(state);
    this.drawNotifications(state);
    for (const deadlock of shown.deadlocks) this.drawCircle(deadlock);
    this.drawFolded(shown.found);
    this.drawChain(shown.chain);
    shown.roots.slice(0, 3).forEach((root, rank) => this.drawRoot(root, rank));
    this.drawSelection(shown);
    this.drawLabels(shown);
  }

  // Pods and idle links, which others are drawn on; nodes, which are drawn on links.
  drawLayers() {
    const { pen } = this, ratio = window.devicePixelRatio || 1;
    const parts = [() => { this.drawPods(); this.drawLinks(0, 1); }, () => this.drawNodes()];
    this.layers.forEach((layer, number) => {
      this.pen = layer.getContext("2d");
      this.pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      this.pen.clearRect(0, 0, this.width, this.height);
      parts[number]();
    });
    this.pen = pen;
  }

  drawPods() {
    const { pen, theme } = this;
    pen.fillStyle = theme.pod;
    for (const box of this.boxes) {
      pen.beginPath();
      pen.roundRect(...box, 6);
      pen.fill();
    }
  }

  // What is in folded pods in words; of open pods a mark that folds them.
  drawFolded(found) {
    const { pen, theme, folds } = this, sums = foldedSums(folds, this, found);
    folds.pods.forEach((_, pod) => {
      const [x, y, width, height] = this.boxes[pod], { paused, depth, found: hits } = sums[pod];
      if (!folds.isFolded(pod)) { this.tag(x + 14, y + 8, "−", theme.soft, theme.paper); return; }
      pen.lineWidth = paused ? 2.5 : 1;
      pen.strokeStyle = paused ? theme.pause : theme.line;
      pen.fillStyle = theme.pod;
      pen.beginPath();
      pen.roundRect(x, y, width, height, 6);
      pen.fill();
      pen.stroke();
      const [name, hosts] = folds.labels[pod].split(": ");
      const lines = [[name, theme.ink], [hosts, theme.soft], ...(paused ? [[`${paused} paused`, theme.pause]] : depth >= 1000 ? [[formatBytes(depth), theme.soft]] : []), ...(hits ? [[`${hits} found`, theme.accent]] : [])];
      pen.textAlign = "center";
      pen.textBaseline = "middle";
      pen.font = `${Math.max(8, Math.min(12, width / 6))}px system-ui, sans-serif`;
      lines.forEach(([text, ink], row) => { pen.fillStyle = ink; pen.fillText(text, x + width / 2, y + height / 2 + (row - (lines.length - 1) / 2) * 15, width - 4); });
    });
  }

  // What a search has found.
  drawFound(found) {
    const { pen, theme } = this;
    pen.strokeStyle = theme.accent;
    pen.lineWidth = Math.max(5, this.unit * 0.5);
    pen.globalAlpha = 0.4;
    pen.beginPath();
    for (const port of found) {
      if (this.isHidden(port)) continue;
      pen.moveTo(...this.along(port, 0));
      pen.lineTo(...this.along(port, 0.5));
    }
    pen.stroke();
    pen.globalAlpha = 1;
  }

  // The pauses that lead to the cause of one, numbered as in the list beside the map.
  drawChain(chain) {
    const { pen, theme } = this, shown = chain.filter(({ port }) => !this.isHidden(port));
    for (const [extra, colour] of [[4, theme.ink], [0, theme.pause]]) {
      pen.strokeStyle = colour;
      pen.lineWidth = Math.max(4, this.unit * 0.34) + extra;
      pen.beginPath();
      for (const { port } of shown) { pen.moveTo(...this.along(port, 0)); pen.lineTo(...this.along(port, 1)); }
      pen.stroke();
    }
    pen.fillStyle = theme.paper;
    const heads = new Path2D();
    for (const { port } of shown) this.arrowHead(heads, this.along(port, 0.75), this.along(port, 0.25), Math.max(9, this.unit * 0.6));
    pen.fill(heads);
    shown.forEach(({ port, number }) => this.tag(...this.along(port, 0.62), String(number), theme.ink, theme.paper));
  }

  isHidden(port) { return this.folds.hides(this.run.links[port], this.run.links[port ^ 1]); }

  // Links, one path a step of load, light ones first. Step 0 has them all: what is busy is drawn on it.
  drawLinks(first, end) {
    const { pen, theme, run, load, folds } = this, paths = theme.load.map(() => new Path2D()), far = theme.load.map(() => new Path2D());
    const shift = this.alone ? 0 : Math.min(2.2, this.unit * 0.14);
    for (let port = 0; port < run.links.length; port += this.alone ? 2 : 1) {
      const a = run.links[port], b = run.links[port ^ 1];
      if (folds.hides(a, b)) continue;
      const busy = this.alone ? Math.max(load[port], load[port ^ 1]) : load[port];
      const step = first === 0 || busy === 0 ? 0 : 1 + Math.min(theme.load.length - 2, Math.floor((busy * (theme.load.length - 1)) / 10.01));
      if (step < first) continue;
      const dx = this.xs[b] - this.xs[a], dy = this.ys[b] - this.ys[a], length = Math.hypot(dx, dy) || 1;
      const sx = (-dy / length) * shift, sy = (dx / length) * shift;
      const path = (folds.isHidden(a) || folds.isHidden(b) ? far : paths)[step];
      path.moveTo(this.xs[a] + sx, this.ys[a] + sy);
      path.lineTo(this.xs[b] + sx, this.ys[b] + sy);
    }
    const thin = Math.max(0.35, Math.min(1.6, this.unit / 9));
    for (let step = first; step < Math.min(end, paths.length); step++) {
      pen.strokeStyle = theme.load[step];
      pen.lineWidth = step === 0 ? thin * 0.7 : thin * (0.9 + step * 0.22);
      pen.globalAlpha = 0.15; // links into folded pods, of which there are many
      pen.stroke(far[step]);
      pen.globalAlpha = 1;
      pen.stroke(paths[step]);
    }
  }

  drawNodes() {
    const { pen, theme, run, unit } = this, hosts = new Path2D(), switches = new Path2D();
    const small = Math.max(0.9, Math.min(4.5, unit * 0.3)), side = Math.max(2.2, Math.min(13, unit * 0.62));
    for (let node = 0; node < run.nodes.length; node++) {
      const x = this.xs[node], y = this.ys[node];
      if (this.folds.isHidden(node)) continue;
      if (run.hosts[node]) {
        hosts.moveTo(x + small, y);
        hosts.arc(x, y, small, 0, 2 * Math.PI);
      } else {
        switches.roundRect(x - side / 2, y - side / 2, side, side, side / 4);
      }
    }
    pen.fillStyle = theme.host;
    pen.fill(hosts);
    pen.fillStyle = theme.node;
    pen.fill(switches);
  }

  // A place on the way from the owner of a port to its peer.
  along(port, share) {
    const a = this.run.links[port], b = this.run.links[port ^ 1];
    return [this.xs[a] + (this.xs[b] - this.xs[a]) * share, this.ys[a] + (this.ys[b] - this.ys[a]) * share];
  }

  drawPauses() {
    const { pen, theme } = this;
    for (const [width, colour] of [[Math.max(2, this.unit * 0.26) + 2, theme.paper], [Math.max(1.3, this.unit * 0.22), theme.pause]]) {
      pen.strokeStyle = pen.fillStyle = colour;
      pen.lineWidth = width;
      pen.beginPath();
      const heads = new Path2D();
      for (let port = 0; port < this.paused.length; port++) if (this.paused[port] && !this.isHidden(port)) this.arrow(port, pen, heads, width);
      pen.stroke();
      pen.fill(heads);
    }
  }

  // From who asked (the peer) to who stopped (the owner).
  arrow(port, lines, heads, width) {
    const [x1, y1] = this.along(port, 0.9), [x2, y2] = this.along(port, 0.3);
    const length = Math.hypot(x2 - x1, y2 - y1) || 1, ux = (x2 - x1) / length, uy = (y2 - y1) / length;
    const size = Math.min(length * 0.6, 3 + width * 2.1);
    lines.moveTo(x1, y1);
    lines.lineTo(x2 - ux * size * 0.6, y2 - uy * size * 0.6);
    this.arrowHead(heads, [x1, y1], [x2, y2], size);
  }

  arrowHead(heads, [x1, y1], [x2, y2], size) {
    const length = Math.hypot(x2 - x1, y2 - y1) || 1, ux = ((x2 - x1) / length) * size, uy = ((y2 - y1) / length) * size;
    heads.moveTo(x2, y2);
    heads.lineTo(x2 - ux - uy * 0.5, y2 - uy + ux * 0.5);
    heads.lineTo(x2 - ux + uy * 0.5, y2 - uy - ux * 0.5);
    heads.closePath();
  }

  depthStep(bytes) {
    let step = -1;
    while (step + 1 < DEPTH_STEPS.length && bytes >= DEPTH_STEPS[step + 1]) step++;
    return step;
  }

  drawQueues() {
    const { pen, theme } = this, paths = theme.queue.map(() => new Path2D());
    for (let port = 0; port < this.depth.length; port++) {
      const step = this.depthStep(this.depth[port]);
      if (step < 0 || this.isHidden(port)) continue;
      const [x, y] = this.along(port, 0.17), radius = Math.max(0.8, (this.unit * (0.1 + step * 0.085)));
      paths[step].moveTo(x + radius, y);
      paths[step].arc(x, y, radius, 0, 2 * Math.PI);
    }
    paths.forEach((path, step) => {
      pen.fillStyle = theme.queue[step];
      pen.fill(path);
      if (step >= 2) { pen.strokeStyle = theme.paper; pen.lineWidth = 0.8; pen.stroke(path); }
    });
  }

  drawDrops(state) {
    const { pen, theme, run } = this, until = countUpTo(run.times, state.time);
    pen.strokeStyle = theme.ink;
    pen.lineWidth = 2;
    pen.beginPath();
    for (let i = until - 1; i >= 0 && run.times[i] > state.time - run.every; i--) {
      if (run.kinds[i] !== KIND.drops || this.isHidden(run.slotPorts[run.slots[i]])) continue;
      const [x, y] = this.along(run.slotPorts[run.slots[i]], 0.17), size = Math.max(3, this.unit * 0.3);
      pen.moveTo(x - size, y - size); pen.lineTo(x + size, y + size);
      pen.moveTo(x - size, y + size); pen.lineTo(x + size, y - size);
    }
    pen.stroke();
  }

  // CNPs of the interval at their hosts: an arrow away from who sent some, towards who received some and slows down.
  drawNotifications(state) {
    const { pen, theme, run } = this, until = countUpTo(run.times, state.time), heads = new Path2D();
    for (let i = until - 1; i >= 0 && run.times[i] > state.time - run.every; i--) {
      const port = run.slotPorts[run.slots[i]], size = Math.max(9, this.unit * 0.7);
      if (this.isHidden(port)) continue;
      if (run.kinds[i] === KIND.cnpsSent) this.arrowHead(heads, this.along(port, 0), this.along(port, 0.42), size);
      else if (run.kinds[i] === KIND.cnpsReceived) this.arrowHead(heads, this.along(port, 1), this.along(port, 0.12), size);
    }
    pen.fillStyle = theme.accent;
    pen.fill(heads);
    pen.strokeStyle = theme.paper;
    pen.lineWidth = 0.8;
    pen.stroke(heads);
  }

  drawCircle(deadlock) {
    const { pen, theme } = this;
    deadlock.ports.forEach((port) => {
      const [x1, y1] = this.along(port, 0), [x2, y2] = this.along(port, 1);
      for (const [width, colour] of [[Math.max(7, this.unit * 0.55), theme.ink], [Math.max(4, this.unit * 0.34), theme.pause]]) {
        pen.strokeStyle = colour;
        pen.lineWidth = width;
        pen.beginPath();
        pen.moveTo(x1, y1);
        pen.lineTo(x2, y2);
        pen.stroke();
      }
    });
    pen.fillStyle = theme.paper;
    const heads = new Path2D();
    deadlock.ports.forEach((port) => this.arrowHead(heads, this.along(port, 0.2), this.along(port, 0.8), Math.max(9, this.unit * 0.6)));
    pen.fill(heads);
    deadlock.ports.forEach((port, number) => this.tag(...this.along(port, 0.45), String(number + 1), theme.ink, theme.paper));
  }

  drawRoot({ port }, rank) {
    if (this.isHidden(port)) {
      const [left, top, width] = this.boxes[this.folds.podOf[this.run.owner(port)]];
      if (rank === 0) this.tag(left + width / 2, top - 10, "storm begins here", this.theme.ink, this.theme.paper);
      return;
    }
    const { pen, theme } = this, [x, y] = this.along(port, 0.17), radius = Math.max(6, this.unit * 0.75);
    pen.strokeStyle = theme.ink;
    pen.lineWidth = rank === 0 ? 2.4 : 1.4;
    pen.beginPath();
    pen.arc(x, y, radius, 0, 2 * Math.PI);
    pen.stroke();
    // On the side away from the node, whose name stands there.
    const away = this.along(port, 0)[1] > y ? -1 : 1;
    if (rank === 0) this.tag(x, y + away * Math.max(16, radius + 11), "storm begins here", theme.ink, theme.paper);
  }

  tag(x, y, text, ground, ink) {
    const { pen } = this;
    pen.font = "600 11px system-ui, sans-serif";
    const width = pen.measureText(text).width + 10;
    const left = Math.max(2, Math.min(this.width - width - 2, x - width / 2)), top = Math.max(2, y - 8);
    pen.fillStyle = ground;
    pen.beginPath();
    pen.roundRect(left, top, width, 16, 8);
    pen.fill();
    pen.fillStyle = ink;
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    pen.fillText(text, left + 5, top + 8.5);
  }

  drawSelection({ port, ends, chain }) {
    const { pen, theme } = this;
    pen.strokeStyle = theme.accent;
    pen.lineWidth = 3;
    pen.beginPath();
    if (port >= 0 && chain.length === 0) {
      pen.moveTo(...this.along(port, 0));
      pen.lineTo(...this.along(port, 1));
    }
    for (const node of ends) {
      pen.moveTo(this.xs[node] + 9, this.ys[node]);
      pen.arc(this.xs[node], this.ys[node], 9, 0, 2 * Math.PI);
    }
    pen.stroke();
  }

  // Names of nodes where they do not cover one another: of what is chosen first, then of switches, then of hosts.
  drawLabels({ ends, chain }) {
    const { pen, theme, run } = this, taken = new Map();
    const first = [...ends, ...chain.flatMap(({ port }) => [run.owner(port), run.peer(port)])];
    const order = [...new Set([...first, ...run.nodes.map((_, node) => node).filter((node) => !run.hosts[node]), ...run.nodes.keys()])];
    pen.font = "11px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.textBaseline = "top";
    pen.lineWidth = 3;
    for (const node of order) {
      const x = this.xs[node], y = this.ys[node] + Math.max(5, this.unit * 0.4);
      if (this.folds.isHidden(node) || x < 0 || x > this.width || y < 0 || y > this.height) continue;
      const half = pen.measureText(run.nodes[node]).width / 2 + 2, row = Math.round(y / LABEL_HEIGHT);
      const others = [row - 1, row, row + 1].flatMap((one) => taken.get(one) || []);
      if (others.some(([left, right, top]) => left < x + half && right > x - half && Math.abs(top - y) < LABEL_HEIGHT)) continue;
      taken.set(row, [...(taken.get(row) || []), [x - half, x + half, y]]);
      pen.strokeStyle = theme.paper;
      pen.strokeText(run.nodes[node], x, y);
      pen.fillStyle = theme.soft;
      pen.fillText(run.nodes[node], x, y);
    }
  }

  // The pod that a click folds or opens, or -1: anywhere in a folded one, at the mark of an open one.
  podAt(x, y) {
    return this.folds.pods.findIndex((_, pod) => {
      const [left, top, width, height] = this.boxes[pod];
      return this.folds.isFolded(pod) ? x >= left && x <= left + width && y >= top && y <= top + height : x >= left && x <= left + 28 && y >= top - 4 && y <= top + 20;
    });
  }

  // What is at a point: { pod }, { node } or { port } (the half of a link that is nearer to its owner), or null.
  hit(x, y, least = 7) {
    const pod = this.podAt(x, y);
    if (pod >= 0) return { pod };
    const near = Math.max(least, this.unit * 0.4);
    let node = -1, best = Math.max(7, this.unit * 0.4);
    for (let i = 0; i < this.xs.length; i++) {
      if (this.folds.isHidden(i)) continue;
      const distance = Math.hypot(this.xs[i] - x, this.ys[i] - y);
      if (distance < best) { best = distance; node = i; }
    }
    if (node >= 0) return { node };
    let port = -1;
    best = near;
    for (let i = 0; i < this.run.links.length; i += 2) {
      const a = this.run.links[i], b = this.run.links[i + 1];
      if (this.folds.hides(a, b)) continue;
      const dx = this.xs[b] - this.xs[a], dy = this.ys[b] - this.ys[a];
      const share = ((x - this.xs[a]) * dx + (y - this.ys[a]) * dy) / (dx * dx + dy * dy || 1);
      if (share < 0 || share > 1) continue;
      const distance = Math.hypot(this.xs[a] + share * dx - x, this.ys[a] + share * dy - y);
      if (distance < best) { best = distance; port = share < 0.5 ? i : i + 1; }
    }
    return port < 0 ? null : { port };
  }
}
