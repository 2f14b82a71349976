"use strict";
// The fabric on a canvas: links by load, queues by depth, pauses as arrows from who asked to who stopped.

const MARGIN = 14;
const PAIRS_MAX = 1200;      // with more links, one line stands for both directions
const LABELS_MAX = 70;       // nodes in view that are named
const DEPTH_STEPS = [1, 16e3, 64e3, 256e3, 1e6, 4e6];

class FabricMap {
  constructor(canvas, run) {
    Object.assign(this, { canvas, run, pen: canvas.getContext("2d"), zoom: 1, left: 0, top: 0, alone: run.links.length / 2 > PAIRS_MAX });
    const ports = run.links.length, nodes = run.nodes.length;
    this.load = new Uint8Array(ports);
    this.depth = new Float32Array(ports);
    this.paused = new Uint8Array(ports);
    this.xs = new Float32Array(nodes);
    this.ys = new Float32Array(nodes);
    this.switches = run.nodes.map((_, node) => node).filter((node) => !run.hosts[node]);
    this.fewest = this.closest();
    // What stays as it is while the run is played: drawn again only when the map has moved.
    this.layers = [document.createElement("canvas"), document.createElement("canvas")];
  }

  // The distance between neighbours in the fullest row of switches, as a share of the width.
  closest() {
    const rows = new Map();
    for (const node of this.switches) {
      const y = this.run.places[2 * node + 1].toFixed(3);
      rows.set(y, (rows.get(y) || 0) + 1);
    }
    return 1 / Math.max(4, ...rows.values());
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
    const { run, width, height, zoom, left, top } = this;
    for (let node = 0; node < run.nodes.length; node++) {
      this.xs[node] = this.x(run.places[2 * node]);
      this.ys[node] = this.y(run.places[2 * node + 1]);
    }
    this.unit = Math.max(2.4, Math.min(26, this.fewest * (width - 2 * MARGIN) * zoom * 0.34));
    this.unit = Math.min(this.unit, height / 22 * Math.max(1, zoom));
    this.moved = true;
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
    this.drawPauses();
    this.drawQueues();
    this.drawDrops(state);
    this.drawNotifications(state);
    for (const deadlock of shown.deadlocks) this.drawCircle(deadlock);
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
    for (const [x, y, width, height] of this.run.pods) {
      pen.beginPath();
      pen.roundRect(this.x(x), this.y(y), this.x(x + width) - this.x(x), this.y(y + height) - this.y(y), 6);
      pen.fill();
    }
  }

  // Links, one path a step of load, light ones first. Step 0 has them all: what is busy is drawn on it.
  drawLinks(first, end) {
    const { pen, theme, run, load } = this, paths = theme.load.map(() => new Path2D());
    const shift = this.alone ? 0 : Math.min(2.2, this.unit * 0.14);
    for (let port = 0; port < run.links.length; port += this.alone ? 2 : 1) {
      const a = run.links[port], b = run.links[port ^ 1];
      const busy = this.alone ? Math.max(load[port], load[port ^ 1]) : load[port];
      const step = first === 0 || busy === 0 ? 0 : 1 + Math.min(theme.load.length - 2, Math.floor((busy * (theme.load.length - 1)) / 10.01));
      if (step < first) continue;
      const dx = this.xs[b] - this.xs[a], dy = this.ys[b] - this.ys[a], length = Math.hypot(dx, dy) || 1;
      const sx = (-dy / length) * shift, sy = (dx / length) * shift;
      paths[step].moveTo(this.xs[a] + sx, this.ys[a] + sy);
      paths[step].lineTo(this.xs[b] + sx, this.ys[b] + sy);
    }
    const thin = Math.max(0.35, Math.min(1.6, this.unit / 9));
    for (let step = first; step < Math.min(end, paths.length); step++) {
      pen.strokeStyle = theme.load[step];
      pen.lineWidth = step === 0 ? thin * 0.7 : thin * (0.9 + step * 0.22);
      pen.stroke(paths[step]);
    }
  }

  drawNodes() {
    const { pen, theme, run, unit } = this, hosts = new Path2D(), switches = new Path2D();
    const small = Math.max(0.9, Math.min(4.5, unit * 0.3)), side = Math.max(2.2, Math.min(13, unit * 0.62));
    for (let node = 0; node < run.nodes.length; node++) {
      const x = this.xs[node], y = this.ys[node];
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
      for (let port = 0; port < this.paused.length; port++) if (this.paused[port]) this.arrow(port, pen, heads, width);
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
      if (step < 0) continue;
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
      if (run.kinds[i] !== KIND.drops) continue;
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

  drawSelection({ port, ends }) {
    const { pen, theme } = this;
    pen.strokeStyle = theme.accent;
    pen.lineWidth = 3;
    pen.beginPath();
    if (port >= 0) {
      pen.moveTo(...this.along(port, 0));
      pen.lineTo(...this.along(port, 1));
    }
    for (const node of ends) {
      pen.moveTo(this.xs[node] + 9, this.ys[node]);
      pen.arc(this.xs[node], this.ys[node], 9, 0, 2 * Math.PI);
    }
    pen.stroke();
  }

  drawLabels({ ends }) {
    const { pen, theme, run } = this;
    const visible = [];
    for (let node = 0; node < run.nodes.length && visible.length <= LABELS_MAX; node++) {
      if (this.xs[node] > -20 && this.xs[node] < this.width + 20 && this.ys[node] > -20 && this.ys[node] < this.height + 20) visible.push(node);
    }
    const named = visible.length <= LABELS_MAX && (this.width * this.zoom) / visible.length > 26 ? visible : ends;
    pen.font = "11px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.textBaseline = "top";
    for (const node of named) {
      const y = this.ys[node] + Math.max(5, this.unit * 0.4);
      pen.lineWidth = 3;
      pen.strokeStyle = theme.paper;
      pen.strokeText(run.nodes[node], this.xs[node], y);
      pen.fillStyle = theme.soft;
      pen.fillText(run.nodes[node], this.xs[node], y);
    }
  }

  // What is at a point: { node } or { port } (the half of a link that is nearer to its owner), or null.
  hit(x, y, least = 7) {
    const near = Math.max(least, this.unit * 0.4);
    let node = -1, best = Math.max(7, this.unit * 0.4);
    for (let i = 0; i < this.xs.length; i++) {
      const distance = Math.hypot(this.xs[i] - x, this.ys[i] - y);
      if (distance < best) { best = distance; node = i; }
    }
    if (node >= 0) return { node };
    let port = -1;
    best = near;
    for (let i = 0; i < this.run.links.length; i += 2) {
      const a = this.run.links[i], b = this.run.links[i + 1];
      const dx = this.xs[b] - this.xs[a], dy = this.ys[b] - this.ys[a];
      const share = ((x - this.xs[a]) * dx + (y - this.ys[a]) * dy) / (dx * dx + dy * dy || 1);
      if (share < 0 || share > 1) continue;
      const distance = Math.hypot(this.xs[a] + share * dx - x, this.ys[a] + share * dy - y);
      if (distance < best) { best = distance; port = share < 0.5 ? i : i + 1; }
    }
    return port < 0 ? null : { port };
  }
}
