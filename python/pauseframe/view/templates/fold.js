"use strict";
// Pods of a large fabric, folded into one box each until a reader opens them: a thousand hosts are dots that nobody can tell apart.

const HOSTS_UNFOLDED = 64;   // fabrics with at most so many hosts show all nodes
const OPEN_SHARE = 8;        // an open pod is so many times as wide as a folded one

class Folds {
  constructor(run) {
    const hosts = run.hosts.reduce((sum, host) => sum + host, 0);
    this.run = run;
    this.open = new Set();
    this.pods = hosts > HOSTS_UNFOLDED && run.pods.length > 1 ? run.pods : [];
    this.podOf = new Int16Array(run.nodes.length).fill(-1);
    this.pods.forEach(([x, y, width, height], pod) => {
      for (let node = 0; node < run.nodes.length; node++) {
        const [nodeX, nodeY] = [run.places[2 * node], run.places[2 * node + 1]];
        if (nodeX >= x && nodeX <= x + width && nodeY >= y && nodeY <= Math.max(y + height, 1)) this.podOf[node] = pod;
      }
    });
    this.members = this.pods.map((_, pod) => run.nodes.map((_, node) => node).filter((node) => this.podOf[node] === pod));
    this.labels = this.members.map((nodes, pod) => this.label(nodes, pod));
    this.rows = this.members.map((nodes) => this.widestRow(nodes));
    this.top = this.widestRow(run.nodes.map((_, node) => node).filter((node) => this.podOf[node] < 0));
  }

  label(nodes, pod) {
    const switches = nodes.filter((node) => !this.run.hosts[node]), hosts = nodes.length - switches.length;
    return `${switches.length === 1 ? this.run.nodes[switches[0]] : `pod ${pod}`}: ${hosts} hosts`;
  }

  widestRow(nodes) {
    const rows = new Map();
    for (const node of nodes) {
      const y = this.run.places[2 * node + 1].toFixed(3);
      if (!this.run.hosts[node]) rows.set(y, (rows.get(y) || 0) + 1);
    }
    return Math.max(1, ...rows.values());
  }

  isFolded(pod) { return pod >= 0 && !this.open.has(pod); }
  isHidden(node) { return this.isFolded(this.podOf[node]); }
  // A link within a folded pod is not drawn.
  hides(a, b) { return this.podOf[a] === this.podOf[b] && this.isHidden(a); }

  toggle(pod) {
    if (!this.open.delete(pod)) this.open.add(pod);
  }

  // Opens the pods of nodes; true if one was folded.
  reveal(nodes) {
    const folded = nodes.map((node) => this.podOf[node]).filter((pod) => this.isFolded(pod));
    folded.forEach((pod) => this.open.add(pod));
    return folded.length > 0;
  }

  // Left and right ends of all pods as shares of the width, in the order of their places.
  spans() {
    const weights = this.pods.map((_, pod) => (this.open.has(pod) ? OPEN_SHARE : 1)), sum = weights.reduce((a, b) => a + b, 0);
    let left = 0;
    return weights.map((weight) => [left / sum, (left += weight) / sum]);
  }

  // Places of all nodes as shares, and boxes of the pods: [x, y, width, height].
  arrange() {
    const { run } = this, places = Float32Array.from(run.places), spans = this.spans();
    const boxes = this.pods.map(([, y, , height], pod) => {
      const [left, right] = spans[pod], gap = 0.06 * (right - left);
      return this.open.has(pod) ? [left + gap, y, right - left - 2 * gap, height] : [left + gap, y + 0.3 * height, right - left - 2 * gap, 0.36 * height];
    });
    for (let node = 0; node < run.nodes.length; node++) {
      const pod = this.podOf[node];
      if (pod < 0) continue;
      const [x, y, width, height] = boxes[pod], [podX, , podWidth] = this.pods[pod];
      if (this.open.has(pod)) places[2 * node] = x + ((run.places[2 * node] - podX) / podWidth) * width;
      else [places[2 * node], places[2 * node + 1]] = [x + width / 2, y + height / 2];
    }
    return { places, boxes };
  }

  // The distance between neighbours in the fullest row of switches that is shown, as a share of the width.
  closest() {
    const spans = this.spans(), open = [...this.open].map((pod) => (spans[pod][1] - spans[pod][0]) / this.rows[pod]);
    return Math.min(1 / Math.max(4, this.top), ...open);
  }
}

// What happens in the folded pods, by pod: ports paused, bytes in queues, ports that a search has found.
function foldedSums(folds, map, found) {
  const sums = folds.pods.map(() => ({ paused: 0, depth: 0, found: 0 }));
  folds.run.links.forEach((owner, port) => {
    const pod = folds.podOf[owner];
    if (!folds.isFolded(pod)) return;
    sums[pod].paused += map.paused[port];
    sums[pod].depth += map.depth[port];
    sums[pod].found += found.has(port) ? 1 : 0;
  });
  return sums;
}
