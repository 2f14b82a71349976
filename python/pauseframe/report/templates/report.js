"use strict";
// Draws the figures when they come into view, in the colours of the reader's theme.
const figures = JSON.parse(document.getElementById("figures").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
const colour = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const runColour = number => colour("run" + number % 8);
const narrow = () => innerWidth < 600;
const dashes = ["solid", "dash", "dot"];

function paintSwatches() {
  for (const swatch of document.querySelectorAll(".swatch")) swatch.style.background = runColour(+swatch.dataset.run);
}

function baseLayout(height) {
  const axis = { gridcolor: colour("line"), zerolinecolor: colour("line"), linecolor: colour("line"), automargin: true };
  return {
    height, axis,
    font: { family: "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', 'Liberation Sans', sans-serif", size: 12, color: colour("ink") },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: 50, r: 12, t: 26, b: 40 },
    legend: { orientation: "h", y: -0.22, yanchor: "top", x: 0, font: { size: 11 } },
    hoverlabel: { bgcolor: colour("card"), bordercolor: colour("line"), font: { color: colour("ink") } },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("soft"), activecolor: colour("ink") },
    dragmode: narrow() ? false : "zoom",
  };
}

const prefixes = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"], [1e-12, "p"]];
function withPrefix(value, unit) {
  if (unit === "×" || (unit === "" && value < 1)) return `${+value.toPrecision(3)} ${unit}`.trim(); // a ratio has no milli
  const [scale, prefix] = prefixes.find(([scale]) => value >= scale * 0.999) || prefixes.at(-1);
  return `${+(value / scale).toPrecision(3)} ${prefix}${unit}`.trim();
}

// Ticks at 1, 2 and 5, or at decades alone where the data span two; the range ends at such values, so that there are two ticks at least.
function logTicks(values, unit) {
  const known = values.flat().filter(value => value > 0);
  if (known.length === 0) return {};
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const all = [];
  for (let power = Math.floor(Math.log10(low)) - 1; power <= Math.ceil(Math.log10(high)); power++) all.push(...[1, 2, 5].map(step => +`${step}e${power}`));
  const first = all.findLastIndex(tick => tick <= low), last = Math.max(all.findIndex(tick => tick >= high), first + 1);
  const isDecade = tick => String(tick.toExponential()).startsWith("1e");
  const ticks = all.slice(first, last + 1).filter(tick => isDecade(tick) || high / low < 100);
  const range = [Math.log10(all[first]) - 0.04, Math.log10(all[last]) + 0.04];
  return { tickvals: ticks, ticktext: ticks.map(tick => withPrefix(tick, unit)), range, ticksuffix: "" };
}

// A logarithmic axis with a span shows that rather than its own values: other figures, or intervals, go further.
function withAxis(axis, { span, ...given }, values) {
  const title = given.title ? { title: { text: given.title, font: { size: 12, color: colour("soft") }, standoff: 6 } } : {};
  const ticks = given.type === "log" ? logTicks(span || values, given.ticksuffix || "") : { nticks: narrow() ? 5 : 8 };
  const names = given.categoryarray // long names on two lines
    ? { tickangle: 0, tickvals: given.categoryarray, ticktext: given.categoryarray.map(name => name.length > 6 ? name.replace(/ (?=\S+$)/, "<br>") : name) } : {};
  // A prefix belongs to a unit: beside "ms", 200 is not "0.2k".
  const prefix = given.ticksuffix && given.ticksuffix !== "×" ? { exponentformat: "SI", minexponent: 1 } : { exponentformat: "none" };
  return { ...axis, ...prefix, ...given, ...names, ...ticks, ...title };
}

function config(name) {
  return {
    displaylogo: false, displayModeBar: narrow() ? false : "hover",
    modeBarButtonsToRemove: ["sendChartToCloud", "lasso2d", "select2d", "zoomIn2d", "zoomOut2d", "autoScale2d", "toImage"],
    modeBarButtonsToAdd: [
      { name: "Save as SVG", icon: Plotly.Icons.camera, click: plot => Plotly.downloadImage(plot, { format: "svg", filename: name, width: 800, height: 450 }) },
      { name: "Save as CSV", icon: Plotly.Icons.disk, click: plot => saveCsv(plot, name) },
    ],
  };
}

function saveBands(trace, rows, quote) {
  const bytes = atob(trace.meta.bands), { columns, names } = trace.meta;
  rows[0] = ["rank", "time", "compute", "waiting", "sending"];
  names.forEach((name, row) => {
    for (let column = 0; column < columns; column++) {
      const shares = [0, 1, 2].map(kind => +(bytes.charCodeAt((row * columns + column) * 3 + kind) / 255).toFixed(3));
      rows.push([quote(name), trace.x0 + column * trace.dx, ...shares]);
    }
  });
}

function saveCsv(plot, name) {
  // A text that a spreadsheet would run as a formula gets an apostrophe before it (OWASP, "CSV Injection").
  const isNumber = text => text.trim() !== "" && Number.isFinite(Number(text));
  const harmless = text => /^[=+\-@\t\r\n]/.test(text) && !isNumber(text) ? "'" + text : text;
  const quote = value => '"' + harmless(String(value)).replaceAll('"', '""') + '"';
  const rows = [["line", "x", "y"]];
  for (const trace of plot.data) {
    if (trace.meta?.bands) saveBands(trace, rows, quote);
    else if (trace.z) trace.z.forEach((row, y) => row.forEach((z, x) => rows.push([quote(trace.x[x]), quote(trace.y[y]), z ?? ""])));
    else trace.x.forEach((x, index) => rows.push([quote(trace.name), quote(x), quote(trace.y[index])]));
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([rows.map(row => row.join(",")).join("\n")], { type: "text/csv" }));
  link.download = name + ".csv";
  link.click();
  URL.revokeObjectURL(link.href);
}

const rgb = text => [1, 3, 5].map(at => parseInt(text.slice(at, at + 2), 16));

// What ranks did, a pixel for each interval of each: its colour is the mean of what went on, weighted by time.
function painted(trace) {
  const { bands, columns, names } = trace.meta, bytes = Uint8Array.from(atob(bands), char => char.charCodeAt(0));
  const paints = ["compute", "waiting", "sending"].map(name => rgb(colour(name))), empty = rgb(colour("card"));
  const z = [], text = [];
  names.forEach((name, row) => {
    const pixels = [], texts = [];
    for (let column = 0; column < columns; column++) {
      const shares = [0, 1, 2].map(kind => bytes[(row * columns + column) * 3 + kind] / 255);
      const rest = Math.max(0, 1 - shares[0] - shares[1] - shares[2]);
      pixels.push([0, 1, 2].map(part => Math.min(255, rest * empty[part] + shares.reduce((sum, share, kind) => sum + share * paints[kind][part], 0))));
      const [compute, waiting, sending] = shares.map(share => Math.round(100 * share) + " %");
      texts.push(`${name}<br>at ${(trace.x0 + column * trace.dx).toPrecision(5)}: compute ${compute}, waiting ${waiting}, sending ${sending}`);
    }
    z.push(pixels);
    text.push(texts);
  });
  return { ...trace, z, text };
}

function coloured(trace) {
  if (trace.type === "image") return painted(trace);
  if (trace.type === "heatmap") return { ...trace, xgap: 1, ygap: 1, colorscale: [0, 1, 2, 3].map(index => [index / 3, colour("heat" + index)]) };
  const number = trace.meta?.run ?? 0;
  const paint = trace.meta?.paint ? colour(trace.meta.paint) : runColour(number);
  const dash = dashes[Math.floor(number / 8) % dashes.length];
  return {
    ...trace,
    line: { width: 2, dash, ...trace.line, color: paint },
    ...(trace.stackgroup ? { fillcolor: paint } : {}),
    marker: trace.type === "bar" ? { ...trace.marker, color: paint } : { size: 7, ...trace.marker, color: paint, line: { width: 2, ...trace.marker?.line, color: paint } },
  };
}

// About a line of legend for every three entries, two on a phone.
const legendHeight = count => count > 1 ? 22 * Math.ceil(count / (narrow() ? 2 : 3)) : 0;

const entries = figure => figure.layout.showlegend === false ? 0 : figure.data.filter(trace => trace.visible !== "legendonly").length;

function draw(canvas) {
  const figure = figures[+canvas.dataset.figure];
  const many = figure.data.length > 1;
  const extra = legendHeight(entries(figure));
  canvas.style.height = figure.height + extra + "px";
  const layout = baseLayout(figure.height + extra);
  const { axis, ...base } = layout;
  const name = (canvas.previousElementSibling?.textContent || canvas.closest(".card")?.querySelector("h3")?.textContent || "figure").trim();
  base.margin.b += extra;
  // Lines that are hidden take no place in the legend: the field above the figure shows them.
  const traces = figure.data.map(coloured).map(trace => trace.visible === "legendonly" ? { ...trace, visible: false } : trace);
  Plotly.react(canvas, traces, {
    ...base, showlegend: many, ...figure.layout,
    shapes: (figure.layout.shapes || []).map(shape => ({ ...shape, line: { ...shape.line, color: colour("soft") } })),
    legend: { ...base.legend, y: -50 / Math.max(figure.height - 66, 60) },
    xaxis: withAxis(axis, figure.layout.xaxis, figure.data.map(trace => trace.x)),
    yaxis: withAxis(axis, figure.layout.yaxis, figure.data.map(trace => trace.y)),
  }, config(name));
  if (!canvas.drawn) listen(canvas, figure);
  canvas.drawn = true;
}

function listen(canvas, figure) {
  canvas.on("plotly_relayout", change => follow(canvas, change));
  const unit = secondsPerStep(figure);
  if (unit === undefined) return;
  canvas.on("plotly_hover", event => showTime(canvas.closest(".group"), event.points[0].x * unit));
  canvas.on("plotly_unhover", () => showTime(canvas.closest(".group"), null));
}

// Of an axis of simulated time its unit, in seconds.
function secondsPerStep(figure) {
  const unit = /^simulated time \((\S+)\)$/.exec(figure.layout.xaxis.title || "");
  return unit ? { s: 1, ms: 1e-3, "µs": 1e-6 }[unit[1]] : undefined;
}

// Where the reader points at a time, a line stands at it in every figure that has the time.
function showTime(group, seconds) {
  for (const canvas of group?.querySelectorAll("[data-figure]") || []) {
    const unit = canvas.drawn && canvas.clientWidth ? secondsPerStep(figures[+canvas.dataset.figure]) : undefined;
    if (unit === undefined) continue;
    canvas.cursor ??= canvas.appendChild(Object.assign(document.createElement("i"), { className: "cursor" }));
    const { xaxis, yaxis } = canvas._fullLayout, at = seconds === null ? NaN : xaxis.l2p(seconds / unit);
    canvas.cursor.hidden = !(at >= 0 && at <= xaxis._length);
    Object.assign(canvas.cursor.style, { left: `${xaxis._offset + at}px`, top: `${yaxis._offset}px`, height: `${yaxis._length}px` });
  }
}

// The figures of one metric show the same time, run beside run.
function follow(canvas, change) {
  const range = ["xaxis.range[0]", "xaxis.range[1]"].map(key => change[key]);
  if (following || (range[0] === undefined && !change["xaxis.autorange"])) return;
  const whole = figures[+canvas.dataset.figure].layout.xaxis.range;
  following = true;
  for (const other of canvas.closest(".lines")?.querySelectorAll("[data-figure]") || [])
    if (other !== canvas && other.drawn) Plotly.relayout(other, { "xaxis.range": range[0] === undefined ? whole : range });
  following = false;
}
let following = false;

// Shows the lines whose name contains a text, in all runs; without one those that peak highest.
function choose(lines, text) {
  for (const canvas of lines.querySelectorAll("[data-figure]")) {
    const figure = figures[+canvas.dataset.figure];
    for (const trace of figure.data) {
      trace.first ??= trace.visible;
      trace.visible = text === "" ? trace.first : trace.name.includes(text) ? true : "legendonly";
    }
    draw(canvas);
  }
}

function drawHeat(section) {
  const heat = section.heat;
  const metric = heat.metrics[section.querySelector(".metric").value];
  const run = heat.runs[section.querySelector(".run").value];
  const scale = [0, 1, 2, 3].map(index => [index / 3, colour("heat" + index)]);
  run.groups.forEach((group, index) => {
    const canvas = section.querySelectorAll(".canvas")[index];
    canvas.parentElement.hidden = group.numbers.length === 0;
    if (group.numbers.length === 0) return;
    const { axis, ...base } = baseLayout(Math.max(120, 26 * group.numbers.length + 90));
    Plotly.react(canvas, [{
      type: "heatmap", x: group.nodes, y: group.numbers, z: group.z[metric.key], customdata: group.peers,
      zmin: 0, zmax: metric.max || 1, colorscale: scale, xgap: group.nodes.length > 120 ? 0 : 1, ygap: 1,
      colorbar: { thickness: 8, outlinewidth: 0, tickformat: metric.format, nticks: 4, len: 1 },
      hovertemplate: `%{x}:%{y} → %{customdata}<br>${metric.label} %{z:${metric.format}}<extra></extra>`,
    }], {
      ...base, showlegend: false,
      xaxis: { ...axis, type: "category", showgrid: false, tickangle: -60, nticks: narrow() ? 10 : 40, tickfont: { size: 10 } },
      yaxis: { ...axis, type: "category", showgrid: false, autorange: "reversed", title: { text: "port", font: { size: 12, color: colour("soft") } } },
    }, config(metric.label));
  });
  section.drawn = true;
}

const resized = new ResizeObserver(entries => {
  for (const { target } of entries) if (target.classList.contains("js-plotly-plot") && target.clientWidth) Plotly.Plots.resize(target);
});

function fill(select, labels) {
  labels.forEach((label, index) => select.add(new Option(label, index)));
}

const seen = new IntersectionObserver(entries => {
  for (const entry of entries) {
    if (!entry.isIntersecting || entry.target.drawn) continue;
    entry.target.heat ? drawHeat(entry.target) : draw(entry.target);
  }
}, { rootMargin: "600px" });

function watch() {
  for (const canvas of document.querySelectorAll("[data-figure]")) {
    const figure = figures[+canvas.dataset.figure];
    canvas.style.height = figure.height + legendHeight(entries(figure)) + "px";
    seen.observe(canvas);
    resized.observe(canvas);
  }
  for (const section of document.querySelectorAll(".heat")) {
    section.heat = JSON.parse(section.querySelector("script").textContent);
    fill(section.querySelector(".metric"), section.heat.metrics.map(metric => metric.label));
    fill(section.querySelector(".run"), section.heat.runs.map(run => run.label));
    for (const name of section.heat.groups) {
      const figure = document.createElement("figure");
      figure.className = "plot";
      figure.append(Object.assign(document.createElement("figcaption"), { textContent: name }));
      figure.append(Object.assign(document.createElement("div"), { className: "canvas" }));
      section.querySelector(".maps").append(figure);
      resized.observe(figure.lastChild);
    }
    section.addEventListener("change", () => drawHeat(section));
    seen.observe(section);
  }
  for (const field of document.querySelectorAll(".pattern"))
    field.addEventListener("input", () => choose(field.closest(".lines"), field.value.trim()));
}

function redraw(all) {
  paintSwatches();
  for (const canvas of document.querySelectorAll("[data-figure]")) if (all || canvas.drawn) draw(canvas);
  for (const section of document.querySelectorAll(".heat")) if (all || section.drawn) drawHeat(section);
}
paintSwatches();
// On paper every part is open and every figure drawn, in light colours and as wide as a page.
let opened = [];
function preparePrint() {
  opened = [...document.querySelectorAll("details:not([open])")].filter(details => details.querySelector("[data-figure]"));
  for (const details of opened) details.open = true;
  document.documentElement.classList.add("printing");
  redraw(true);
}
function leavePrint() {
  for (const details of opened) details.open = false;
  document.documentElement.classList.remove("printing");
  redraw(false);
}

plotlyLoaded.then(() => {
  watch();
  dark.addEventListener("change", () => redraw(false));
  addEventListener("beforeprint", preparePrint);
  addEventListener("afterprint", leavePrint);
});

// The player is a page of its own; it is loaded when its part of the report is opened.
for (const part of document.querySelectorAll(".player"))
  part.addEventListener("toggle", () => {
    const frame = part.querySelector("iframe");
    if (part.open && !frame.srcdoc) frame.srcdoc = JSON.parse(document.getElementById("player-page").textContent);
  });
