"use strict";
// Finds ports by name, or by an expression over what they do at the time that is shown: port ~ leaf.* and paused

const TEXTS = { port: (run, port) => run.portName(port), node: (run, port) => run.nodes[run.owner(port)], peer: (run, port) => run.nodes[run.peer(port)] };
// What is compared with numbers, and its units, the usual one first.
const BYTES = { b: 1, kb: 1e3, mb: 1e6 };
const NUMBERS = {
  queue: { read: (map, port) => map.depth[port], units: BYTES, example: "100 KB" },
  load: { read: (map, port) => map.load[port] * 10, units: { "%": 1 }, example: "50 %" },
  rate: { read: (map, port) => map.run.rates[port], units: { "gb/s": 1, gbps: 1 }, example: "40 Gb/s" },
};
const FLAGS = { paused: (map, port) => map.paused[port] > 0, host: (map, port) => map.run.hosts[map.run.owner(port)] > 0, switch: (map, port) => !map.run.hosts[map.run.owner(port)] };
const ALL_UNITS = Object.assign({}, ...Object.values(NUMBERS).map(({ units }) => units));
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
    const operator = /^([=<>~]|>=|<=|!=)$/.test(tokens[at] ?? "") ? tokens[at++] : "";
    if (!operator) return word in FLAGS ? FLAGS[word] : (map, port) => TEXTS.port(map.run, port).toLowerCase().includes(name.toLowerCase());
    if (at >= tokens.length) throw new FilterError(`${word} ${operator} needs a value`);
    if (word in TEXTS) return textTest(TEXTS[word], operator, plain(tokens[at++]));
    if (word in NUMBERS) return numberTest(NUMBERS[word].read, operator, amount(word, NUMBERS[word]));
    throw new FilterError(`${word} is not known: compare ${[...Object.keys(TEXTS), ...Object.keys(NUMBERS)].join(", ")}; or write ${Object.keys(FLAGS).join(", ")}`);
  };
  const amount = (word, { units, example }) => {
    const token = tokens[at++], found = /^(\d+\.?\d*|\.\d+)(.*)$/.exec(token), separate = found && !found[2] && next() in ALL_UNITS ? tokens[at] : "";
    const unit = (found?.[2] || separate).toLowerCase();
    if (separate) at++;
    if (!found || !(unit in ALL_UNITS || !unit)) throw new FilterError(`${token} is not a number: write ${word} > ${example}`);
    if (unit && !(unit in units)) throw new FilterError(`${word} has another unit than ${token}${separate ? ` ${separate}` : ""}: write ${word} > ${example}`);
    return +found[1] * (unit ? units[unit] : 1);
  };
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
