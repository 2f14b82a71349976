"use strict";
// Finds ports by name, or by an expression over what they do at the time that is shown: port ~ leaf.* and paused

const TEXTS = { port: (run, port) => run.portName(port), node: (run, port) => run.nodes[run.owner(port)], peer: (run, port) => run.nodes[run.peer(port)] };
// What is compared with numbers. Units are those of scenario files and of the page; a number alone has the unit `alone`.
const BYTES = { B: 1, KB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 };
const GBPS = { "b/s": 1e-9, "Kb/s": 1e-6, "Mb/s": 1e-3, "Gb/s": 1, "Tb/s": 1e3, bps: 1e-9, Kbps: 1e-6, Mbps: 1e-3, Gbps: 1, Tbps: 1e3 };
const NUMBERS = {
  queue: { read: (map, port) => map.depth[port], units: BYTES, alone: "B", example: "100 KB" },
  load: { read: (map, port) => map.load[port] * 10, units: { "%": 1 }, alone: "%", example: "50 %" },
  rate: { read: (map, port) => map.run.rates[port], units: GBPS, alone: "Gb/s", example: "40 Gb/s" },
};
const FLAGS = { paused: (map, port) => map.paused[port] > 0, host: (map, port) => map.run.hosts[map.run.owner(port)] > 0, switch: (map, port) => !map.run.hosts[map.run.owner(port)] };
const OPERATOR = /^([=<>~]|>=|<=|!=)$/;
const HITS_MAX = 40;

class FilterError extends Error {}

// A function (map, port) that says whether a port matches. Throws FilterError with what is wrong and what to write.
function parseFilter(text) {
  const tokens = [...text.matchAll(/[()]|>=|<=|!=|[=<>~]|"[^"]*"?|[^\s()=<>~!"]+|\S/g)].map((found) => found[0]);
  let at = 0;
  const next = () => tokens[at]?.toLowerCase();
  const any = () => {
    let left = all();
    while (next() === "or") { at++; const [one, two] = [left, all()]; left = (map, port) => one(map, port) || two(map, port); }
    return left;
  };
  const all = () => {
    let left = negated();
    while (at < tokens.length && next() !== "or" && next() !== ")") {
      if (next() === "and") at++;
      const [one, two] = [left, negated()];
      left = (map, port) => one(map, port) && two(map, port);
    }
    return left;
  };
  const negated = () => {
    if (next() !== "not") return single();
    at++;
    const inner = negated();
    return (map, port) => !inner(map, port);
  };
  const single = () => {
    if (at >= tokens.length) throw new FilterError("the expression ends too early: after and, or, not comes a condition");
    if (next() === "(") {
      at++;
      const inner = any();
      if (next() !== ")") throw new FilterError("a bracket is not closed: add )");
      at++;
      return inner;
    }
    return condition(next(), plain(tokens[at++]));
  };
  const condition = (word, name) => {
    const operator = OPERATOR.test(tokens[at] ?? "") ? tokens[at++] : "";
    if (!operator) return Object.hasOwn(FLAGS, word) ? FLAGS[word] : (map, port) => TEXTS.port(map.run, port).toLowerCase().includes(name.toLowerCase());
    if (at >= tokens.length) throw new FilterError(`${word} ${operator} needs a value`);
    if (Object.hasOwn(TEXTS, word)) return textTest(TEXTS[word], operator, plain(tokens[at++]));
    if (Object.hasOwn(NUMBERS, word)) return numberTest(NUMBERS[word].read, operator, amount(word, NUMBERS[word]));
    throw new FilterError(`${word} is not known: compare ${[...Object.keys(TEXTS), ...Object.keys(NUMBERS)].join(", ")}; or write ${Object.keys(FLAGS).join(", ")}`);
  };
  const amount = (word, { units, alone, example }) => {
    const token = plain(tokens[at++]), [, digits, glued] = /^(\d+\.?\d*|\.\d+)(.*)$/.exec(token) ?? [];
    if (!digits) throw new FilterError(`${token} is not a number: write ${word} > ${example}`);
    const unit = glued || (endsCondition() ? "" : plain(tokens[at++]));
    if (unit && !Object.hasOwn(units, unit)) throw new FilterError(`${unit} is not a unit of ${word} (${Object.keys(units).join(", ")}): write ${word} > ${example}`);
    if (word === "load" && !unit && +digits > 0 && +digits <= 1) throw new FilterError(`${digits} may be ${digits} % or ${+(digits * 100).toPrecision(6)} %: write the unit, as in load > ${example}`);
    return Math.fround(+digits * units[unit || alone]);
  };
  // True where no unit follows a number: at the end, a bracket, a word that joins or stands alone, or the next comparison.
  const endsCondition = () => at >= tokens.length || /^[()]$/.test(next()) || ["and", "or", "not", ...Object.keys(FLAGS)].includes(next()) || OPERATOR.test(tokens[at + 1] ?? "");
  const test = any();
  if (at < tokens.length) throw new FilterError(`${tokens[at]} does not belong here: join conditions by and, or`);
  return test;
}

const plain = (token) => token.replaceAll('"', "");

function textTest(read, operator, value) {
  if (operator === "~") {
    let pattern;
    try { pattern = new RegExp(value, "i"); } catch { throw new FilterError(`${value} is not a regular expression`); }
    return (map, port) => pattern.test(read(map.run, port));
  }
  if (operator === "=") return (map, port) => read(map.run, port) === value;
  if (operator === "!=") return (map, port) => read(map.run, port) !== value;
  throw new FilterError(`names are compared by ~, = and !=, not by ${operator}`);
}

function numberTest(read, operator, value) {
  const tests = { "=": (a) => a === value, "!=": (a) => a !== value, "<": (a) => a < value, ">": (a) => a > value, "<=": (a) => a <= value, ">=": (a) => a >= value };
  if (!tests[operator]) throw new FilterError("~ compares names: compare numbers by =, < and >");
  return (map, port) => tests[operator](read(map, port));
}

// The field and its list. What is found is marked on the maps, and follows the time.
class Finder {
  constructor(player, field, note, list) {
    Object.assign(this, { player, field, note, list, test: null });
    player.views.forEach((view) => { view.found = new Set(); });
    field.addEventListener("input", () => this.read());
    field.addEventListener("keydown", (event) => { if (event.key === "Enter") this.list.querySelector("button")?.click(); });
  }

  read() {
    const text = this.field.value.trim();
    this.test = null;
    this.player.views.forEach((view) => view.found.clear());
    this.note.textContent = "";
    this.list.replaceChildren();
    try {
      if (text) this.test = parseFilter(text);
    } catch (error) {
      if (!(error instanceof FilterError)) throw error;
      this.note.textContent = error.message;
    }
    this.update();
    this.player.redraw();
  }

  update() {
    if (!this.test) return;
    const hits = this.player.views.flatMap((view) => this.hitsOf(view));
    hits.sort((a, b) => b.rank - a.rank || a.port - b.port);
    const ports = this.player.views.reduce((sum, view) => sum + view.run.links.length, 0);
    this.note.textContent = `${hits.length.toLocaleString("en")} of ${ports.toLocaleString("en")} ports${hits.length > HITS_MAX ? `, the first ${HITS_MAX}` : ""}`;
    this.list.replaceChildren(...hits.slice(0, HITS_MAX).map((hit) => this.button(hit)));
  }

  hitsOf(view) {
    const { run, map } = view, hits = [];
    view.found.clear();
    for (let port = 0; port < run.links.length; port++) {
      if (!this.test(map, port)) continue;
      view.found.add(port);
      hits.push({ view, port, rank: view.rank(port) });
    }
    return hits;
  }

  button({ view, port }) {
    const { run, map } = view, made = element("button", `${run.portName(port)} → ${run.nodes[run.peer(port)]}`, { type: "button", class: "hit" });
    made.append(element("small", map.paused[port] ? "paused" : map.depth[port] ? formatBytes(map.depth[port]) : ""));
    made.addEventListener("click", () => this.player.choose({ view, port }));
    return made;
  }
}
