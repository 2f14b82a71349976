"use strict";
// The page around the figures: draws them when they come into view, chooses lines and heat maps, prints.

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
  run.groups.forEach((group, index) => {
    const canvas = section.querySelectorAll(".canvas")[index];
    canvas.parentElement.hidden = group.numbers.length === 0;
    if (group.numbers.length === 0) return;
    canvas.plot?.destroy();
    canvas.plot = new Plot(canvas, {
      height: Math.max(120, 26 * group.numbers.length + 90), run: +section.querySelector(".run").value,
      data: [{
        type: "heatmap", x: group.nodes, y: group.numbers, z: group.z[metric.key], customdata: group.peers, zmin: 0, zmax: metric.max || 1,
        hovertemplate: `%{x}:%{y} → %{customdata}<br>${metric.label} %{z:${metric.format}}`,
      }],
      layout: { showlegend: false, xaxis: { type: "category", categoryarray: group.nodes }, yaxis: { type: "category", categoryarray: group.numbers, autorange: "reversed", title: "port" } },
    });
  });
  section.querySelector(".ramp-key").replaceChildren(make("span", "", "0"), make("i", "ramp"), make("span", "", formatted(metric.max || 1, metric.format)));
  section.drawn = true;
}

const resized = new ResizeObserver(entries => {
  for (const { target } of entries) target.plot?.resize();
});

function fill(select, labels) {
  labels.forEach((label, index) => select.add(new Option(label, index)));
}

const seen = new IntersectionObserver(entries => {
  for (const entry of entries) {
    if (!entry.isIntersecting || entry.target.plot || entry.target.drawn) continue;
    entry.target.heat ? drawHeat(entry.target) : draw(entry.target);
  }
}, { rootMargin: "600px" });

function watch() {
  for (const canvas of document.querySelectorAll("[data-figure]")) {
    canvas.style.minHeight = (figures[+canvas.dataset.figure].height || 300) + "px";
    seen.observe(canvas);
    resized.observe(canvas);
  }
  for (const section of document.querySelectorAll(".heat")) {
    section.heat = JSON.parse(section.querySelector("script").textContent);
    fill(section.querySelector(".metric"), section.heat.metrics.map(metric => metric.label));
    fill(section.querySelector(".run"), section.heat.runs.map(run => run.label));
    for (const name of section.heat.groups) {
      const figure = make("figure", "plot");
      figure.append(make("figcaption", "", name), make("div", "canvas"));
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
  for (const canvas of document.querySelectorAll("[data-figure]")) if (all || canvas.plot) draw(canvas);
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

Promise.all(figures.map(unpack)).then(() => {
  watch();
  dark.addEventListener("change", () => redraw(false));
  addEventListener("beforeprint", preparePrint);
  addEventListener("afterprint", leavePrint);
  document.documentElement.dataset.ready = "";
});

// The player is a page of its own; it is loaded when its part of the report is opened.
for (const part of document.querySelectorAll(".player"))
  part.addEventListener("toggle", () => {
    const frame = part.querySelector("iframe");
    if (part.open && !frame.srcdoc) frame.srcdoc = JSON.parse(document.getElementById("player-page").textContent);
  });
