"use strict";
// Time lines (uPlot): a mark at the time that is shown, a click goes there, and all charts have one cursor.

function formatBytes(bytes) {
  if (bytes >= 1e6) return `${+(bytes / 1e6).toPrecision(3)} MB`;
  return bytes >= 1e3 ? `${+(bytes / 1e3).toPrecision(3)} KB` : `${Math.round(bytes)} B`;
}

function formatTime(us, digits = 5) {
  if (us === null || us === undefined) return "–";
  const [scale, unit] = Math.abs(us) >= 1e6 ? [1e6, "s"] : Math.abs(us) >= 1e3 ? [1e3, "ms"] : [1, "us"];
  return `${+(us / scale).toPrecision(digits)} ${unit}`;
}

class Charts {
  constructor(player) {
    this.player = player;
    this.all = new Set();
    this.sync = uPlot.sync("clock");
  }

  clear(element) {
    for (const chart of [...this.all]) {
      if (element.contains(chart.root)) { this.all.delete(chart); chart.destroy(); }
    }
    element.replaceChildren();
  }

  // One chart: `lines` are { label, colour, data }, over `times` in microseconds; `pauses` are shaded.
  add(element, { title, unit, times, lines, range, pauses = [], stepped = false }) {
    const { player } = this, { theme } = player;
    const axis = { stroke: theme.soft, grid: { stroke: theme.line, width: 1 }, ticks: { stroke: theme.line, width: 1 }, font: "11px system-ui", labelFont: "11px system-ui" };
    const end = player.end, scale = end >= 2e6 ? 1e6 : end >= 2e3 ? 1e3 : 1, name = { 1: "us", 1000: "ms", 1000000: "s" }[scale];
    const options = {
      title, width: Math.max(200, element.clientWidth), height: 150, legend: { show: lines.length > 1 },
      cursor: { sync: { key: this.sync.key }, drag: { x: false, y: false }, y: false },
      scales: { x: { time: false, range: [0, end / scale] }, y: { range: range || ((_, low, high) => [0, high > 0 ? high * 1.08 : 1]) } },
      axes: [
        { ...axis, label: `simulated time (${name})`, labelSize: 16, size: 30, space: 60 },
        { ...axis, label: unit === "bytes" ? "" : unit, labelSize: 16, size: 66, values: (_, ticks) => ticks.map((tick) => (unit === "bytes" ? formatBytes(tick) : +tick.toPrecision(6))) },
      ],
      series: [{ label: `time (${name})` }, ...lines.map(({ label, colour }) => ({
        label, stroke: colour, width: 1.5, fill: lines.length === 1 ? colour + "22" : undefined, points: { show: false },
        paths: stepped ? uPlot.paths.stepped({ align: 1 }) : undefined,
      }))],
      hooks: { drawClear: [(chart) => shade(chart, pauses, scale, theme)], draw: [(chart) => mark(chart, player.time / scale, theme)] },
    };
    const chart = new uPlot(options, [times.map((time) => time / scale), ...lines.map(({ data }) => data)], element);
    chart.over.addEventListener("click", (event) => player.seek(chart.posToVal(event.offsetX, "x") * scale));
    this.all.add(chart);
    return chart;
  }

  redraw() { for (const chart of this.all) chart.redraw(false, false); }
}

function mark(chart, time, theme) {
  const x = Math.round(chart.valToPos(time, "x", true)), { ctx, bbox } = chart;
  ctx.save();
  ctx.strokeStyle = theme.accent;
  ctx.lineWidth = 2;
  ctx.beginPath();
  ctx.moveTo(x, bbox.top);
  ctx.lineTo(x, bbox.top + bbox.height);
  ctx.stroke();
  ctx.restore();
}

// Pauses, at least a pixel wide.
function shade(chart, pauses, scale, theme) {
  const { ctx, bbox } = chart;
  ctx.save();
  ctx.fillStyle = theme.pause + "55";
  for (const [begin, end] of pauses) {
    const x = chart.valToPos(begin / scale, "x", true);
    ctx.fillRect(x, bbox.top, Math.max(1, chart.valToPos(end / scale, "x", true) - x), bbox.height);
  }
  ctx.restore();
}

// Step lines with different times brought onto one axis.
function joined(lines) {
  const times = [...new Set(lines.flatMap(([own]) => own))].sort((a, b) => a - b);
  const values = lines.map(([own, data]) => {
    let place = 0;
    return times.map((time) => { while (place + 1 < own.length && own[place + 1] <= time) place++; return data[place]; });
  });
  return [times, values];
}
