"use strict";
// Figures: uPlot has axes, zoom and crosshair; the marks are painted here in the colours of the reader's theme.
const figures = JSON.parse(document.getElementById("figures").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
const colour = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const narrow = () => innerWidth < 600;
const make = (tag, className, text = "") => Object.assign(document.createElement(tag), { className, textContent: text });
const TITLES = 36; // pixels for the titles of both axes
const HUES = 8;
const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3]];
const SHAPES = ["circle", "square", "triangle", "diamond"];
const TIME_UNITS = [[1, "s"], [1e3, "ms"], [1e6, "us"], [1e9, "ns"]];

// Numbers

const PREFIXES = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "u"], [1e-9, "n"], [1e-12, "p"]];
function withPrefix(value, unit, digits = 3) {
  if (value === 0) return `0 ${unit}`.trim();
  if (unit === "×" || (unit === "" && Math.abs(value) < 1)) return `${grouped(value, digits)} ${unit}`.trim(); // a ratio has no milli
  const [scale, prefix] = PREFIXES.find(([scale]) => Math.abs(value) >= scale * 0.9999) || PREFIXES.at(-1);
  if (unit === "" && prefix === "k") return grouped(value, Math.max(digits, 6)); // 16,789, as in tables
  return `${+(value / scale).toPrecision(digits)} ${prefix === "k" && unit !== "s" ? "K" : prefix}${unit}`.trim(); // KB, Kb/s
}

const grouped = (value, digits = 12) => (+value.toPrecision(digits)).toLocaleString("en", { maximumSignificantDigits: digits });

// A number in d3's format, as far as figures use it: ".4s", ".1%", ",d", ".4~g".
function formatted(value, format = "", unit = "") {
  if (typeof value !== "number") return value === null || value === undefined ? "–" : String(value);
  const digits = +(/\.(\d+)/.exec(format)?.[1] ?? 6);
  if (format.endsWith("s")) return withPrefix(value, unit, digits);
  if (format.endsWith("%")) return (100 * value).toFixed(digits) + " %";
  if (format.endsWith("d")) return grouped(value);
  return String(+value.toPrecision(digits));
}

// "%{x:.4s}s<br>..." with its values; what is in <extra> comes first. Lines of text, not HTML.
function filled(template, values) {
  const [, body, extra] = /^(.*?)(?:<extra>(.*)<\/extra>)?$/s.exec(template);
  const text = [extra, body].filter(Boolean).join("<br>");
  const fill = (_, name, format, unit = "") => format?.endsWith("s") ? formatted(values[name], format, unit) : formatted(values[name], format) + unit;
  return text.replace(/%\{([\w.]+)(?::([^}]*))?\}(b\/s|B|s|×)?/g, fill).split("<br>");
}

// Axes: from values to numbers, and from numbers to ticks

class Axis {
  constructor(spec, values, bars) {
    this.spec = spec;
    this.isLog = spec.type === "log";
    const known = values.filter(value => value !== null && value !== undefined);
    this.names = spec.type === "category" || known.some(value => typeof value === "string") ? spec.categoryarray || [...new Set(known)] : null;
    if (this.names) this.places = new Map(this.names.map((name, index) => [name, index]));
    const range = this.range(known.map(value => this.at(value)).filter(Number.isFinite), bars);
    this.isReversed = spec.autorange === "reversed" || range[0] > range[1];
    this.whole = [Math.min(...range), Math.max(...range)];
  }

  at(value) {
    if (value === null || value === undefined) return NaN;
    if (this.places) return this.places.get(value) ?? NaN;
    return this.isLog ? (value > 0 ? Math.log10(value) : NaN) : value;
  }

  range(numbers, bars) {
    const { spec } = this;
    if (this.names) return [-0.5, this.names.length - 0.5];
    if (spec.range) return spec.range;
    if (this.isLog) return logRange((spec.span || []).map(Math.log10).concat(spec.span ? [] : numbers));
    let low = numbers.reduce((a, b) => Math.min(a, b), Infinity), high = numbers.reduce((a, b) => Math.max(a, b), -Infinity);
    if (low > high) return [0, 1];
    if (spec.rangemode === "tozero") return [Math.min(0, low * 1.05), high > 0 ? high * 1.06 : 1];
    const room = bars ? 0.5 : (high - low) * 0.04 || Math.abs(high) * 0.05 || 0.5;
    return [low - room, high + room];
  }

  // The texts of the ticks that stand for all values: names, or the few numbers that were run.
  get fixed() { return this.names || this.spec.ticktext; }

  // Positions and texts of ticks on `pixels`, for the range that is shown.
  ticks(low, high, pixels, space, room) {
    const { spec } = this, unit = spec.ticksuffix || "";
    if (this.fixed) {
      const ticks = this.fixed.map((text, index) => [this.names ? index : spec.tickvals[index], text]);
      return fitted(ticks.filter(([place]) => place >= low && place <= high), low, high, pixels, room);
    }
    if (this.isLog) return fitted(logTicks(low, high).map(([place, value]) => [place, withPrefix(value, unit)]), low, high, pixels, room);
    const wanted = (high - low) / Math.max(2, Math.floor(pixels / space)), wide = niceStep(wanted), result = [];
    const step = spec.dtick || (wide > high - low ? niceStep(wanted / 2) : wide); // two ticks at least
    for (let place = Math.ceil(low / step - 1e-9) * step; place <= high + step * 1e-9; place += step) result.push(+place.toPrecision(12));
    const scale = this.timeUnit(low, high)[0];
    return result.map(place => [place, this.text(spec.time ? place * scale : place, unit)]);
  }

  text(value, unit) {
    const { tickformat } = this.spec;
    if (tickformat) return formatted(value, tickformat).replace(" ", "");
    return unit ? withPrefix(value, unit, 4) : Math.abs(value) < 1e3 ? String(+value.toPrecision(6)) : grouped(value, 6);
  }

  timeUnit(low, high) {
    return TIME_UNITS.find(([scale]) => Math.abs(high) * scale >= 2 && (high - low) * scale >= 0.5) || TIME_UNITS.at(-1);
  }

  title(low, high) {
    return this.spec.time ? `${this.spec.title} (${this.timeUnit(low, high)[1]})` : this.spec.title || "";
  }
}

function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least || 1));
  return [1, 2, 5, 10].find(step => step * power >= least * (1 - 1e-9)) * power;
}

// Ticks without the texts that have no room beside the one before; their lines stay, so that a reader sees that texts are missing.
function fitted(ticks, low, high, pixels, room) {
  let end = -Infinity;
  return ticks.map(([place, text]) => {
    const at = ((place - low) / (high - low)) * pixels, half = room(text) / 2;
    if (at - half < end) return [place, ""];
    end = at + half;
    return [place, text];
  });
}

const widthOf = text => 6.4 * String(text).length;

// Ticks at 1, 2 and 5, or at decades alone where the data span two; two ticks at least.
function logTicks(low, high) {
  const result = [], steps = high - low >= 2 ? [1] : [1, 2, 5];
  for (let power = Math.floor(low); power <= Math.ceil(high); power++)
    for (const step of steps) result.push([Math.log10(step) + power, +`${step}e${power}`]);
  return result.filter(([place]) => place >= low - 1e-9 && place <= high + 1e-9);
}

function logRange(numbers) {
  if (numbers.length === 0) return [0, 1];
  const ticks = [];
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  for (let power = Math.floor(low) - 1; power <= Math.ceil(high); power++) ticks.push(...[1, 2, 5].map(step => Math.log10(step) + power));
  const first = ticks.findLastIndex(tick => tick <= low + 1e-9), last = Math.max(ticks.findIndex(tick => tick >= high - 1e-9), first + 1);
  return [ticks[first] - 0.04, ticks[last] + 0.04];
}

// Colours: eight hues; beyond them dashes, shapes and stripes tell runs apart

const hue = number => colour("run" + number % HUES);
const texture = number => Math.floor(number / HUES) % DASHES.length;
const paintOf = trace => trace.line?.color || trace.marker?.color || (trace.meta?.paint ? colour(trace.meta.paint) : hue(trace.meta?.run ?? 0));

function fillOf(ctx, trace) {
  const paint = paintOf(trace), kind = trace.meta?.paint ? 0 : texture(trace.meta?.run ?? 0);
  if (kind === 0) return paint;
  const tile = new OffscreenCanvas(8, 8), pen = tile.getContext("2d");
  pen.fillStyle = paint;
  pen.fillRect(0, 0, 8, 8);
  pen.fillStyle = colour("card");
  pen.fillRect(...[[], [0, 0, 8, 3], [2, 2, 4, 4], [0, 0, 3, 8]][kind]);
  return ctx.createPattern(tile, "repeat");
}

function swatchStyle(number) {
  const card = colour("card"), paint = hue(number), dashed = (angle, on, off) => `repeating-linear-gradient(${angle}deg, ${paint} 0 ${on}px, ${card} ${on}px ${on + off}px)`;
  return [paint, dashed(90, 5, 2), dashed(90, 2, 2), dashed(45, 2, 2)][texture(number)];
}

function paintSwatches() {
  for (const swatch of document.querySelectorAll(".swatch")) swatch.style.background = swatchStyle(+swatch.dataset.run);
}

const rgb = text => [1, 3, 5].map(at => parseInt(text.slice(at, at + 2), 16));
const heatStops = () => [0, 1, 2, 3].map(index => rgb(colour("heat" + index)));
function heatColour(share, stops) {
  const place = Math.min(Math.max(share, 0), 1) * 3, index = Math.min(Math.floor(place), 2), part = place - index;
  return `rgb(${stops[index].map((from, channel) => Math.round(from + (stops[index + 1][channel] - from) * part))})`;
}

// Time lines: the samples where there is room for them, else the mean with a band from the minimum to the maximum

// Float32 values in four planes of bytes, which compress better; deflated, in base64.
async function unpack(figure) {
  if (!figure.blob) return;
  const packed = Uint8Array.from(atob(figure.blob), char => char.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const planes = new Uint8Array(await new Response(stream).arrayBuffer()), count = planes.length / 4;
  const bytes = new Uint8Array(planes.length);
  for (let index = 0; index < count; index++) for (let plane = 0; plane < 4; plane++) bytes[4 * index + plane] = planes[plane * count + index];
  const values = new Float32Array(bytes.buffer);
  for (const trace of figure.data) {
    if (trace.type !== "samples") continue;
    const part = number => values.subarray(trace.at + number * trace.size, trace.at + (number + 1) * trace.size);
    trace.mean = part(0);
    [trace.low, trace.high] = trace.per > 1 ? [part(1), part(2)] : [trace.mean, trace.mean];
    trace.middle = trace.times ? 0 : trace.step * (trace.per - 1) / trace.per / 2; // from the first sample of a group
    trace.time = trace.times ? index => trace.times[index] : index => trace.first + index * trace.step;
  }
  delete figure.blob;
}

function firstFrom(trace, time) { // the first sample at or after a time
  let low = 0, high = trace.size;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (trace.time(middle) < time) low = middle + 1; else high = middle;
  }
  return low;
}

// What is drawn of a line between two times, in at most about `room` points.
function thinned(trace, from, to, room) {
  const begin = Math.max(0, firstFrom(trace, from) - 1), end = Math.min(trace.size, firstFrom(trace, to) + 1);
  const width = Math.max(1, Math.ceil((end - begin) / room));
  const drawn = { x: [], mean: [], low: [], high: [], count: [] };
  for (let at = begin - begin % width; at < end; at += width) {
    let sum = 0, count = 0, time = 0, low = Infinity, high = -Infinity;
    const last = Math.min(at + width, trace.size);
    for (let index = at; index < last; index++) {
      const samples = Math.min(trace.per, trace.count - index * trace.per);
      sum += trace.mean[index] * samples;
      time += trace.time(index);
      count += samples;
      low = Math.min(low, trace.low[index]);
      high = Math.max(high, trace.high[index]);
    }
    drawn.x.push(time / (last - at) + trace.middle);
    drawn.mean.push(sum / count);
    drawn.low.push(low);
    drawn.high.push(high);
    drawn.count.push(count);
  }
  return drawn;
}

// A figure in its element

const plots = new Set();
let sharedTime = null; // The time range of all figures of the page, once the reader has chosen one.

class Plot {
  constructor(element, figure) {
    Object.assign(this, { element, figure });
    this.layout = figure.layout;
    const bars = figure.data.some(trace => trace.type === "bar");
    const upright = bars && !figure.data.some(trace => trace.orientation === "h");
    this.x = new Axis(this.layout.xaxis, this.values("x"), upright);
    this.y = new Axis(this.layout.yaxis, this.values("y"), bars && !upright);
    this.isTime = Boolean(this.layout.xaxis.time);
    const start = this.isTime && sharedTime || this.x.whole;
    this.shown = [...start];
    this.build();
    plots.add(this);
  }

  // All values of an axis, with the ends of error bars and the sums of stacks.
  values(axis) {
    const { data, layout } = this.figure, horizontal = data.some(trace => trace.orientation === "h");
    const isValue = axis === (horizontal ? "x" : "y"), sums = new Map();
    return data.flatMap(trace => {
      if (trace.type === "samples") return axis === "x" ? [trace.time(0), trace.time(trace.size - 1)] : [...trace.high];
      if (trace.type === "image") return axis === "x" ? [trace.x0, trace.x0 + trace.meta.columns * trace.dx] : [];
      let own = [...trace[axis]];
      if (trace.base && axis === "x") own = own.map((value, index) => value + trace.base[index]);
      if (isValue && (trace.stackgroup || layout.barmode === "stack" && trace.type === "bar")) {
        const other = trace[axis === "x" ? "y" : "x"];
        own = own.map((value, index) => { const sum = (sums.get(other[index]) || 0) + (value || 0); sums.set(other[index], sum); return sum; });
      }
      if (axis === "y" && trace.error_y) {
        const { array, arrayminus } = trace.error_y;
        own.push(...trace.y.map((value, index) => value + array[index]), ...trace.y.map((value, index) => value - arrayminus[index]));
      }
      if (trace.type === "bar" && isValue) own.push(0);
      return own;
    });
  }

  build() {
    const { element, layout, figure } = this;
    element.replaceChildren();
    this.heading = element.appendChild(make("div", "axis-title", this.layout.yaxis.visible === false ? "" : this.layout.yaxis.title || ""));
    const host = element.appendChild(make("div", "host"));
    this.footing = element.appendChild(make("div", "axis-title x"));
    this.legend = element.appendChild(make("div", "legend"));
    element.appendChild(this.tools());
    this.cursorText = element.appendChild(make("div", "tip"));
    this.cursorText.hidden = true;
    const axis = (visible, { names }) => ({
      show: visible !== false, stroke: colour("soft"), font: "11px system-ui, sans-serif", gap: 4,
      grid: { stroke: colour("line"), width: 1 }, ticks: { show: !!names, stroke: colour("line"), width: 1, size: 4 },
    });
    this.ends = layout.ends && !narrow() && this.visible.length < 7 && this.visible.every(trace => trace.name.length < 19);
    const room = this.ends ? 14 + 6.6 * Math.max(...this.visible.map(trace => trace.name.length)) : 12;
    const widest = Math.max(0, ...(this.x.fixed || []).map(widthOf));
    const tilted = (this.x.fixed || []).length * (widest + 8) > element.clientWidth - 80;
    this.chart = new uPlot({
      width: Math.max(element.clientWidth, 120), height: (figure.height || 300) - TITLES, legend: { show: false }, padding: [10, tilted ? Math.max(room, 0.65 * widest) : room, 0, 4],
      scales: {
        x: { time: false, range: () => this.shown, dir: this.x.isReversed ? -1 : 1 },
        y: { range: () => this.y.whole, dir: this.y.isReversed ? -1 : 1 },
      },
      series: [{}, { paths: () => null, points: { show: false } }],
      axes: [
        { ...axis(layout.xaxis.visible, this.x), size: tilted ? Math.min(96, 16 + 0.77 * widest) : 26, rotate: tilted ? -50 : 0,
          grid: { show: layout.xaxis.showgrid !== false && !this.x.names, stroke: colour("line"), width: 1 }, ...this.splits(this.x, narrow() ? 64 : 76, "width", tilted ? () => 16 : text => widthOf(text) + 8) },
        { ...axis(layout.yaxis.visible, this.y), grid: { show: layout.yaxis.showgrid !== false && !this.y.names, stroke: colour("line"), width: 1 },
          size: (_, texts) => Math.min(170, 14 + Math.max(widthOf("00"), ...(texts || []).map(widthOf))), ...this.splits(this.y, 34, "height", () => 14) },
      ],
      cursor: {
        y: false, points: { show: false }, drag: { x: !narrow(), y: false, setScale: false }, bind: { dblclick: () => () => this.reset() },
        x: this.isTime, ...(this.isTime ? { sync: { key: "time", filters: { pub: type => type === "mousemove" || type === "mouseleave" } } } : {}),
      },
      hooks: {
        draw: [chart => this.paint(chart)],
        setSelect: [chart => this.select(chart)],
        setCursor: [chart => this.point(chart)],
      },
    }, [this.shown, [0, 0]], host);
    this.listen();
    this.legendOf();
  }

  // A click opens the page of a point. Two clicks are a double click, which resets the view, and a drag is no click.
  listen() {
    const { over } = this.chart;
    let down = null, waiting = 0;
    over.addEventListener("pointerdown", event => { down = [event.clientX, event.clientY]; });
    over.addEventListener("dblclick", () => clearTimeout(waiting));
    over.addEventListener("click", event => {
      clearTimeout(waiting);
      const target = down && Math.hypot(event.clientX - down[0], event.clientY - down[1]) < 4 ? this.target(event) : null;
      if (target) waiting = setTimeout(() => open(target, "pauseframe"), 250);
    });
  }

  // What a click opens: the page of a point, the player of a run at an instant, or at a port.
  target({ offsetX, offsetY }) {
    const { offsetLeft, offsetTop } = this.chart.over, hit = this.nearest(offsetX + offsetLeft, offsetY + offsetTop);
    if (hit?.link) return hit.link;
    const player = playersOf(this.element)[this.figure.run ?? hit?.run];
    if (!player || !(this.isTime || hit?.port)) return null;
    const port = hit?.port || this.portAt(offsetX, offsetY), time = this.chart.posToVal(offsetX, "x") * 1e6;
    return `${player}#${[...(this.isTime ? [`t=${Math.max(0, time).toFixed(3)}`] : []), ...(port ? [`port=${encodeURIComponent(port)}`] : [])].join("&")}`;
  }

  // The port whose line is nearest to a point.
  portAt(x, y) {
    const time = this.chart.posToVal(x, "x"), far = trace => Math.abs(this.chart.valToPos(this.y.at(this.meanAt(trace, time)), "y") - y);
    const near = this.visible.filter(trace => trace.type === "samples" && trace.name.includes(":") && far(trace) < 30).sort((one, two) => far(one) - far(two));
    return near[0]?.name.split("/")[0];
  }

  splits(axis, space, side, room) {
    let texts = [];
    return {
      splits: (chart, _, low, high) => {
        const ticks = axis.ticks(low, high, chart.bbox[side] / devicePixelRatio, space, room);
        texts = ticks.map(([, text]) => text);
        return ticks.map(([place]) => place);
      },
      values: () => texts,
    };
  }

  get visible() { return this.figure.data.filter(trace => trace.visible !== false && trace.visible !== "legendonly"); }

  // Painting

  paint(chart) {
    const { ctx, bbox } = chart;
    this.footing.textContent = this.layout.xaxis.visible === false ? "" : this.x.title(...this.shown);
    this.hits = [];
    this.px = value => chart.valToPos(this.x.at(value), "x", true);
    this.py = value => chart.valToPos(this.y.at(value), "y", true);
    this.stacks = new Map();
    ctx.save();
    ctx.beginPath();
    const rim = this.layout.yaxis.rangemode || this.layout.yaxis.visible === false ? 8 : 1; // whole dots on the axis
    ctx.rect(bbox.left - rim, bbox.top - rim, bbox.width + 2 * rim + (this.layout.xaxis.overhang ? 999 : 0), bbox.height + 2 * rim);
    ctx.clip();
    for (const trace of this.visible) this[{ bar: "bars", heatmap: "heat", image: "bands", samples: "samples" }[trace.type] || "line"](ctx, trace, chart);
    for (const shape of this.layout.shapes || []) this.shape(ctx, shape, bbox);
    ctx.restore();
    if (this.ends) this.names(ctx, bbox);
  }

  // The names of lines beside their ends, moved apart where they would overlap.
  names(ctx, bbox) {
    const gap = 13 * devicePixelRatio, last = trace => trace.x.findLastIndex((x, index) => Number.isFinite(this.px(x)) && Number.isFinite(this.py(trace.y[index])));
    const found = this.visible.map(trace => [trace, last(trace)]).filter(([, index]) => index >= 0)
      .map(([trace, index]) => ({ trace, y: this.py(trace.y[index]) })).sort((a, b) => a.y - b.y);
    for (let index = 1; index < found.length; index++) found[index].y = Math.max(found[index].y, found[index - 1].y + gap);
    for (let index = found.length - 1, floor = bbox.top + bbox.height; index >= 0; index--, floor -= gap) found[index].y = Math.min(found[index].y, floor);
    for (const { trace, y } of found) write(ctx, trace.name, bbox.left + bbox.width + 8 * devicePixelRatio, y, "left", paintOf(trace));
  }

  hit(x, y, trace, index, rect) {
    const { layout } = this, link = trace.links?.[index];
    if (trace.hoverinfo === "skip" || !trace.hovertemplate) return;
    const values = {
      x: layout.xaxis.time && typeof trace.x?.[index] === "number" ? withPrefix(trace.x[index], "s", 6) : trace.x?.[index],
      y: trace.y?.[index], text: trace.text?.[index], customdata: trace.customdata?.[index], "fullData.name": trace.name,
    };
    this.hits.push({ x: x / devicePixelRatio, y: y / devicePixelRatio, rect: rect?.map(side => side / devicePixelRatio), link, run: trace.meta?.run, lines: () => filled(trace.hovertemplate, values) });
  }

  line(ctx, trace) {
    const mode = trace.mode || "lines", steps = trace.line?.shape === "hv", ratio = devicePixelRatio;
    const below = trace.stackgroup ? this.stacks.get(trace.stackgroup) || trace.y.map(() => 0) : null;
    const tops = below ? trace.y.map((value, index) => (value || 0) + below[index]) : trace.y;
    if (below) this.stacks.set(trace.stackgroup, tops);
    const points = Array.from(trace.x, (x, index) => [this.px(x), this.py(tops[index])]);
    ctx.strokeStyle = ctx.fillStyle = paintOf(trace);
    if (below) {
      const floor = Array.from(trace.x, (x, index) => [this.px(x), this.py(below[index])]);
      ctx.beginPath();
      trail(ctx, points, steps);
      trail(ctx, floor.reverse(), steps, true);
      ctx.fill();
    } else if (mode.includes("lines")) {
      ctx.lineWidth = (trace.line?.width ?? 2) * ratio;
      ctx.lineJoin = "round";
      ctx.setLineDash(trace.meta?.paint ? [] : DASHES[texture(trace.meta?.run ?? 0)].map(length => length * ratio));
      ctx.beginPath();
      trail(ctx, points, steps);
      ctx.stroke();
      ctx.setLineDash([]);
    }
    if (trace.error_y) this.errors(ctx, trace, points);
    const { size = 7, opacity = 1, symbol } = trace.marker || {};
    points.forEach(([x, y], index) => {
      if (!Number.isFinite(x) || !Number.isFinite(y)) return;
      if (mode.includes("markers")) {
        ctx.globalAlpha = Array.isArray(opacity) ? opacity[index] : opacity;
        mark(ctx, x, y, size * ratio, (Array.isArray(symbol) ? symbol[index] : symbol) || SHAPES[texture(trace.meta?.run ?? 0)], ratio);
        ctx.globalAlpha = 1;
      }
      if (mode.includes("text")) write(ctx, trace.text[index], x + 9 * ratio, y, "left", colour("ink"));
      this.hit(x, y, trace, index);
    });
  }

  errors(ctx, trace, points) {
    const { array, arrayminus } = trace.error_y;
    ctx.lineWidth = 1.2 * devicePixelRatio;
    ctx.beginPath();
    points.forEach(([x, y], index) => {
      if (!Number.isFinite(y)) return;
      const [high, low] = [this.py(trace.y[index] + array[index]), this.py(trace.y[index] - arrayminus[index])];
      const top = Number.isFinite(high) ? high : y, bottom = Number.isFinite(low) ? low : this.chart.bbox.top + this.chart.bbox.height, cap = 3 * devicePixelRatio;
      if (array[index] === 0 && arrayminus[index] === 0) return;
      for (const end of [top, bottom]) { ctx.moveTo(x - cap, end); ctx.lineTo(x + cap, end); }
      ctx.moveTo(x, top);
      ctx.lineTo(x, bottom);
    });
    ctx.stroke();
  }

  bars(ctx, trace) {
    const isFlat = trace.orientation === "h", stacked = this.layout.barmode === "stack" || trace.base;
    const group = this.visible.filter(other => other.type === "bar"), place = group.indexOf(trace);
    const [along, across] = isFlat ? [this.y, this.px] : [this.x, this.py], positions = isFlat ? trace.y : trace.x, lengths = isFlat ? trace.x : trace.y;
    const room = typeof trace.width === "number" ? trace.width : 1 - (this.layout.bargap ?? 0.25), width = stacked ? room : room / group.length;
    ctx.fillStyle = fillOf(ctx, trace);
    const points = [];
    positions.forEach((position, index) => {
      const from = trace.base?.[index] ?? (stacked ? this.stacks.get(position) || 0 : 0), to = from + (lengths[index] || 0);
      if (stacked && !trace.base) this.stacks.set(position, to);
      const middle = along.at(position) + (stacked ? 0 : (place - (group.length - 1) / 2) * width);
      const side = value => this.chart.valToPos(value, isFlat ? "y" : "x", true);
      const [a, b] = [side(middle - width / 2), side(middle + width / 2)].sort((one, other) => one - other);
      const start = across(from), base = Number.isFinite(start) ? start : this.chart.bbox.top + this.chart.bbox.height;
      const [c, d] = [base, across(to)].sort((one, other) => one - other);
      const thick = Math.max(b - a - (b - a > 4 ? 1 : 0), 0.5);
      const rect = isFlat ? [c, a, d - c, thick] : [a, c, thick, d - c];
      ctx.globalAlpha = trace.marker?.opacity?.[index] ?? 1;
      ctx.fillRect(...rect);
      ctx.globalAlpha = 1;
      points.push(isFlat ? [d, (a + b) / 2] : [(a + b) / 2, across(to)]);
      if (trace.text?.[index] && !trace.texttemplate) write(ctx, trace.text[index], rect[0] + 5 * devicePixelRatio, (a + b) / 2, "left", colour("card"));
      this.hit(...points.at(-1), trace, index, rect);
    });
    ctx.strokeStyle = colour("ink");
    if (trace.error_y) this.errors(ctx, trace, points);
  }

  heat(ctx, trace, chart) {
    const stops = heatStops(), gap = trace.x.length > 120 ? 0 : devicePixelRatio;
    const [low, high] = [trace.zmin ?? 0, trace.zmax ?? 1];
    trace.z.forEach((row, y) => row.forEach((z, x) => {
      const left = chart.valToPos(x - 0.5, "x", true), right = chart.valToPos(x + 0.5, "x", true);
      const [top, bottom] = [chart.valToPos(y - 0.5, "y", true), chart.valToPos(y + 0.5, "y", true)].sort((a, b) => a - b);
      if (z === null || z === undefined) return;
      const share = (z - low) / (high - low || 1), rect = [left, top, right - left - gap, bottom - top - gap];
      ctx.fillStyle = heatColour(share, stops);
      ctx.fillRect(...rect);
      if (trace.texttemplate) {
        const [red, green, blue] = ctx.fillStyle.match(/[0-9a-f]{2}/g).map(part => parseInt(part, 16));
        write(ctx, trace.text[y][x], (left + right) / 2, (top + bottom) / 2, "center", 0.3 * red + 0.6 * green + 0.1 * blue > 140 ? "#1f2430" : "#ffffff");
      }
      const values = { x: trace.x[x], y: trace.y[y], z, text: trace.text?.[y]?.[x], customdata: trace.customdata?.[y]?.[x] };
      this.hits.push({ rect: rect.map(side => side / devicePixelRatio), port: `${trace.x[x]}:${trace.y[y]}`, lines: () => filled(trace.hovertemplate, values) });
    }));
  }

  // What ranks did, a cell for each interval of each: its colour is the mean of what went on, weighted by time.
  bands(ctx, trace, chart) {
    const { bands, columns, names } = trace.meta, bytes = Uint8Array.from(atob(bands), char => char.charCodeAt(0));
    const kinds = ["compute", "waiting", "sending"], paints = kinds.map(name => rgb(colour(name))), empty = rgb(colour("card"));
    names.forEach((name, row) => {
      const middle = trace.y0 + row * trace.dy;
      const [top, bottom] = [middle - trace.dy / 2, middle + trace.dy / 2].map(value => chart.valToPos(value, "y", true)).sort((a, b) => a - b);
      for (let column = 0; column < columns; column++) {
        const shares = [0, 1, 2].map(kind => bytes[(row * columns + column) * 3 + kind] / 255), rest = Math.max(0, 1 - shares[0] - shares[1] - shares[2]);
        const at = trace.x0 + column * trace.dx, [left, right] = [this.px(at - trace.dx / 2), this.px(at + trace.dx / 2)];
        ctx.fillStyle = `rgb(${[0, 1, 2].map(part => Math.round(rest * empty[part] + shares.reduce((sum, share, kind) => sum + share * paints[kind][part], 0)))})`;
        ctx.fillRect(left, top, right - left + 0.5, bottom - top + 0.5);
        const text = kinds.map((kind, index) => `${kind} ${Math.round(100 * shares[index])} %`).join(", ");
        this.hits.push({ rect: [left, top, right - left, bottom - top].map(side => side / devicePixelRatio), lines: () => [name, `at ${withPrefix(at, "s", 5)}: ${text}`] });
      }
    });
  }

  samples(ctx, trace, chart) {
    const drawn = trace.drawn = thinned(trace, ...this.shown, chart.bbox.width / devicePixelRatio / 2);
    const points = key => drawn.x.map((x, index) => [this.px(x), this.py(drawn[key][index])]);
    const number = trace.meta.run, ratio = devicePixelRatio;
    ctx.strokeStyle = ctx.fillStyle = hue(number);
    if (drawn.low.some((low, index) => low !== drawn.high[index])) {
      ctx.globalAlpha = 0.22;
      ctx.beginPath();
      trail(ctx, points("high"));
      trail(ctx, points("low").reverse(), false, true);
      ctx.fill();
      ctx.globalAlpha = 1;
    }
    const line = points("mean");
    ctx.lineWidth = 1.6 * ratio;
    ctx.setLineDash(DASHES[texture(number)].map(length => length * ratio));
    ctx.beginPath();
    trail(ctx, line);
    ctx.stroke();
    ctx.setLineDash([]);
    const room = chart.bbox.width / ratio / 8;
    if (drawn.x.length < room) for (const [x, y] of line) mark(ctx, x, y, 4 * ratio, SHAPES[texture(number)], ratio); // the samples themselves
  }

  shape(ctx, shape, { left, top, width, height }) {
    const x = value => shape.xref === "paper" ? left + value * width : this.px(value);
    const y = value => shape.yref === "paper" ? top + (1 - value) * height : this.py(value);
    ctx.strokeStyle = colour("soft");
    ctx.lineWidth = (shape.line?.width || 1) * devicePixelRatio;
    ctx.setLineDash(shape.line?.dash === "dot" ? [2 * devicePixelRatio, 3 * devicePixelRatio] : []);
    ctx.beginPath();
    ctx.moveTo(x(shape.x0), y(shape.y0));
    ctx.lineTo(x(shape.x1), y(shape.y1));
    ctx.stroke();
    ctx.setLineDash([]);
  }

  // Time and zoom

  select(chart) {
    const { left, width } = chart.select;
    if (width < 4) return;
    const range = [chart.posToVal(left, "x"), chart.posToVal(left + width, "x")].sort((a, b) => a - b);
    chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.isTime ? showTime(range) : this.show(range);
  }

  show(range) {
    this.shown = [...range];
    this.chart.setScale("x", { min: range[0], max: range[1] });
  }

  // Back to the first view, and from there to the whole run, whose end may be idle.
  reset() {
    const first = this.x.whole, isFirst = this.shown.every((value, index) => value === first[index]);
    const range = isFirst && this.layout.xaxis.end ? [0, this.layout.xaxis.end] : first;
    if (!this.isTime) this.show(first);
    else if (isFirst) showTime(range);
    else showTime(null);
  }

  // Pointing

  point(chart) {
    const { left, top } = chart.cursor, here = chart.over.matches(":hover");
    const time = left >= 0 ? chart.posToVal(left, "x") : null;
    for (const [trace, entry] of this.entries || []) if (trace.type === "samples") entry.textContent = time === null ? "" : this.valueAt(trace, time);
    if (!here || left < 0 || !this.hits) { this.cursorText.hidden = true; return; }
    const { offsetLeft, offsetTop } = chart.over, x = left + offsetLeft, y = top + offsetTop;
    const hit = this.nearest(x, y);
    this.cursorText.hidden = !hit;
    chart.over.style.cursor = this.target({ offsetX: left, offsetY: top }) ? "pointer" : "";
    if (!hit) return;
    this.cursorText.replaceChildren(...hit.lines().map(line => make("div", "", line)));
    const host = this.chart.root.offsetTop, flip = x > this.element.clientWidth / 2;
    Object.assign(this.cursorText.style, { left: flip ? "" : `${x + 14}px`, right: flip ? `${this.element.clientWidth - x + 14}px` : "", top: `${Math.max(0, y + host - 10)}px` });
  }

  nearest(x, y) {
    const inside = this.hits.findLast(({ rect }) => rect && x >= rect[0] && x <= rect[0] + rect[2] && y >= rect[1] && y <= rect[1] + rect[3]);
    if (inside) return inside;
    let best = null, least = 40 ** 2;
    for (const hit of this.hits) {
      if (hit.rect) continue;
      const far = (hit.x - x) ** 2 + (hit.y - y) ** 2;
      if (far < least) [best, least] = [hit, far];
    }
    return best;
  }

  // The drawn point of a line that is nearest to a time, or -1.
  pointAt({ drawn }, time) {
    if (!drawn || drawn.x.length === 0) return -1;
    let at = drawn.x.findIndex(x => x >= time);
    if (at < 0) at = drawn.x.length - 1;
    return at > 0 && time - drawn.x[at - 1] < drawn.x[at] - time ? at - 1 : at;
  }

  meanAt(trace, time) { return trace.drawn?.mean[this.pointAt(trace, time)] ?? NaN; }

  valueAt(trace, time) {
    const { drawn } = trace, at = this.pointAt(trace, time);
    if (at < 0) return "";
    const text = value => withPrefix(value, this.layout.yaxis.ticksuffix || this.layout.yaxis.unit || "", 4);
    const range = drawn.low[at] === drawn.high[at] ? "" : ` (${text(drawn.low[at])} to ${text(drawn.high[at])})`;
    return `${text(drawn.mean[at])}${range}`;
  }

  // Legend and buttons

  legendOf() {
    const named = this.visible.filter(trace => trace.name);
    this.entries = new Map();
    this.legend.replaceChildren();
    if (this.ends || this.layout.showlegend === false || (named.length < 2 && named[0]?.type !== "samples")) return;
    for (const trace of this.figure.data.filter(one => one.name && (one.visible !== "legendonly"))) {
      const entry = make("button", "entry"), key = entry.appendChild(make("i", "line")), number = trace.meta?.run ?? 0;
      entry.type = "button";
      entry.append(make("span", "", trace.name));
      if (trace.line?.width) key.style.height = `${Math.min(8, Math.max(2, trace.line.width))}px`;
      key.style.background = trace.meta?.paint ? paintOf(trace) : swatchStyle(number);
      this.entries.set(trace, entry.appendChild(make("b", "")));
      entry.classList.toggle("off", trace.visible === false);
      entry.addEventListener("click", () => {
        trace.visible = trace.visible === false;
        entry.classList.toggle("off", trace.visible === false);
        this.chart.redraw(false);
      });
      this.legend.append(entry);
    }
  }

  tools() {
    const bar = make("div", "tools");
    const add = (name, act, hint) => {
      const button = bar.appendChild(make("button", "", name));
      button.type = "button";
      button.title = hint;
      button.addEventListener("click", act);
    };
    if (this.isTime) add("reset", () => this.reset(), "First view of all figures; again: the whole run (also a double click)");
    add("CSV", () => save(csvOf(this.figure), "text/csv", this.name + ".csv"), "Save the values");
    add("PNG", () => this.chart.ctx.canvas.toBlob(blob => save(blob, "image/png", this.name + ".png")), "Save the picture");
    return bar;
  }

  get name() {
    return (this.element.previousElementSibling?.textContent || this.element.closest(".card")?.querySelector("h3")?.textContent || "figure").trim();
  }

  resize() {
    const width = this.element.clientWidth;
    if (width && width !== this.chart.width) this.chart.setSize({ width, height: this.chart.height });
  }

  destroy() {
    this.chart.destroy();
    plots.delete(this);
  }
}

// The players of the runs of a figure's group, by the number of the run.
const playersOf = element => JSON.parse(element.closest("[data-players]")?.dataset.players || "{}");

// A time range for all figures of the page; null: the first view of each.
function showTime(range) {
  sharedTime = range;
  for (const plot of plots) if (plot.isTime) plot.show(range || plot.x.whole);
}

function trail(ctx, points, steps = false, joins = false) {
  let pen = joins, last = null;
  for (const [x, y] of points) {
    if (!Number.isFinite(x) || !Number.isFinite(y)) { pen = joins; last = null; continue; }
    if (steps && last !== null) joins ? ctx.lineTo(last[0], y) : ctx.lineTo(x, last[1]);
    pen ? ctx.lineTo(x, y) : ctx.moveTo(x, y);
    pen = true;
    last = [x, y];
  }
}

function mark(ctx, x, y, size, shape, ratio) {
  const r = size / 2;
  ctx.beginPath();
  if (shape.startsWith("circle")) ctx.arc(x, y, r, 0, 2 * Math.PI);
  else if (shape.startsWith("square")) ctx.rect(x - r, y - r, 2 * r, 2 * r);
  else if (shape.startsWith("line-ns")) { ctx.moveTo(x, y - r); ctx.lineTo(x, y + r); }
  else {
    const corners = shape.startsWith("triangle") ? [[0, -1.2], [1.1, 0.9], [-1.1, 0.9]] : [[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]];
    corners.forEach(([dx, dy], index) => index ? ctx.lineTo(x + dx * r, y + dy * r) : ctx.moveTo(x + dx * r, y + dy * r));
    ctx.closePath();
  }
  ctx.lineWidth = 2 * ratio;
  shape.endsWith("-open") ? ctx.stroke() : ctx.fill();
}

function write(ctx, text, x, y, align, paint) {
  ctx.save();
  ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.textAlign = align;
  ctx.textBaseline = "middle";
  ctx.fillStyle = paint;
  ctx.fillText(text, x, y);
  ctx.restore();
}

function csvOf(figure) {
  // A text that a spreadsheet would run as a formula gets an apostrophe before it (OWASP, "CSV Injection").
  const isNumber = text => text.trim() !== "" && Number.isFinite(Number(text));
  const harmless = text => /^[=+\-@\t\r\n]/.test(text) && !isNumber(text) ? "'" + text : text;
  const quote = value => '"' + harmless(String(value)).replaceAll('"', '""') + '"';
  const rows = [["line", "x", "y"]];
  for (const trace of figure.data) {
    if (trace.type === "samples") {
      if (rows.length === 1) rows[0] = ["line", "time_s", "mean", "min", "max", "samples"];
      for (let index = 0; index < trace.size; index++)
        rows.push([quote(trace.name), trace.time(index), trace.mean[index], trace.low[index], trace.high[index], Math.min(trace.per, trace.count - index * trace.per)]);
    } else if (trace.meta?.bands) {
      const bytes = atob(trace.meta.bands), { columns, names } = trace.meta;
      rows[0] = ["rank", "time", "compute", "waiting", "sending"];
      names.forEach((name, row) => {
        for (let column = 0; column < columns; column++)
          rows.push([quote(name), trace.x0 + column * trace.dx, ...[0, 1, 2].map(kind => +(bytes.charCodeAt((row * columns + column) * 3 + kind) / 255).toFixed(3))]);
      });
    } else if (trace.z) trace.z.forEach((row, y) => row.forEach((z, x) => rows.push([quote(trace.x[x]), quote(trace.y[y]), z ?? ""])));
    else trace.x.forEach((x, index) => rows.push([quote(trace.name), quote(x), quote(trace.y[index])]));
  }
  return rows.map(row => row.join(",")).join("\n");
}

function save(content, type, name) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(new Blob([content], { type })), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
}

function draw(canvas) {
  canvas.plot?.destroy();
  canvas.plot = new Plot(canvas, figures[+canvas.dataset.figure]);
}
