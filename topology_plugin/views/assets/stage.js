// The picture of one partition: its units as nested frames, its nodes as cells that exist only near the screen.
const $ = id => document.getElementById(id);
const stage = $("stage");
const el = (tag, cls, ...inside) => { const e = document.createElement(tag); if (cls) e.className = cls; e.append(...inside.filter(x => x != null && x !== "")); return e; };

const view = { partition: 0, inside: new Set(), byJob: false, query: "", hits: null, job: null, node: -1, unit: -1, order: [], all: false };
const cellOf = new Map();

// A topology may serve several partitions: what is counted is the chosen one's, other nodes of its units stand back.
const within = unit => count(unit.all, n => view.inside.has(n));
const freeIn = unit => count(unit.all, n => view.inside.has(n) && isFree(n));

function cell(n) {
  const i = el("i", `n ${stateOf(n)}`);
  i.dataset.n = n; i.tabIndex = -1; i.setAttribute("role", "img");
  const on = jobsOn.get(n);
  const here = view.inside.has(n);
  if (!here) i.classList.add("other");
  i.setAttribute("aria-label", `${N.name[n]}, ${stateOf(n)}${on ? `, job ${on.map(j => j.label).join(", ")}` : ""}${here ? "" : ", not in this partition"}`);
  if (on) i.style.setProperty("--h", on[0].hue);
  if (view.hits && view.hits.has(n)) i.classList.add("hit");
  if (view.node === n) i.classList.add("sel");
  if (view.density === "named") i.append(el("b", "", N.name[n]));
  cellOf.set(n, i);
  return i;
}

const watcher = new IntersectionObserver(entries => {
  for (const entry of entries) (entry.isIntersecting ? fill : empty)(entry.target);
}, { rootMargin: "500px 0px" });

function fill(box) {
  if (box.firstChild) return;
  const members = box.nodes.map(cell);
  for (let k = 0; k < box.slots; k++) members.push(el("i", "slot"));
  box.append(...members);
}
function empty(box) {
  if (view.all || !box.firstChild || box.contains(document.activeElement)) return;
  for (const n of box.nodes) cellOf.delete(n);
  box.replaceChildren();
}

// As many columns as fit where no leaf or block says how many.
const SIZES = { named: 140, airy: 24, roomy: 21, compact: 15, dense: 10 };
const wide = nodes => { const box = cells(nodes, Math.max(1, Math.floor((stage.clientWidth - 30) / SIZES[view.density]))); box.classList.add("wide"); return box; };

function cells(nodes, cols, slots = 0) {
  const box = el("div", "cells"), rows = Math.ceil((nodes.length + slots) / cols) || 1;
  box.nodes = nodes; box.slots = slots;
  box.style.setProperty("--cols", cols);
  box.style.minHeight = `calc(${rows} * (var(--c) + var(--g)) - var(--g))`;
  watcher.observe(box);
  view.order.push(...nodes);
  return box;
}

function heading(unit, chain = [unit], full = false, most = 15) {
  const b = el("button", "uh");
  b.type = "button"; b.dataset.u = unit.id; b.title = chain.map(u => u.name).join(" › ");
  const name = el("span", "name", full ? chain.map(u => u.name).join(" › ") : short(unit.name, most));
  b.append(name, idleWords(unit, full));
  return b;
}
function idleWords(unit, full) {
  const size = within(unit);
  if (unit.role === "pad") return el("span", "room", "empty");
  if (!D.live) return el("span", "room", `${size}`);
  const idle = freeIn(unit), free = el("b", idle ? "" : "none", `${idle}`);
  return full ? el("span", "room", free, ` ${FREE} of ${size}`) : el("span", "room", free, `/${size}`);
}

function leaf(unit, cols, base) {
  const pad = unit.role === "pad", missing = base && !unit.lost && !pad ? Math.max(0, base - unit.nodes.length) : 0;
  const card = el("div", `leaf${missing ? " short" : ""}${pad ? " pad" : ""}`);
  card.dataset.card = unit.id;
  card.style.setProperty("--cols", cols);
  const most = view.density === "named" ? Infinity : view.density === "dense" ? 6 : Math.max(15, Math.floor((cols * SIZES[view.density] - 48) / 6.7));
  card.append(heading(unit, [unit], false, most), cells(unit.nodes, cols, pad ? 0 : missing));
  return card;
}

function frame(unit, cols) {
  const chain = [unit];
  while (unit.children.length === 1 && unit.children[0].role === "switch") chain.push(unit = unit.children[0]);
  if (unit.lost) return lostFrame(unit, chain);
  const box = el("section", "switch");
  box.dataset.card = chain[0].id;
  box.append(heading(chain[0], chain, true));
  const below = unit.children.filter(within), leaves = below.filter(c => c.role !== "switch"), inner = below.filter(c => c.role === "switch");
  if (leaves.length) box.append(el("div", "leaves", ...leaves.map(c => leaf(c, cols, 0))));
  inner.forEach(c => box.append(frame(c, cols)));
  return box;
}
function lostFrame(unit, chain) {
  const box = el("section", "switch lost");
  box.dataset.card = chain[0].id;
  const together = unit.children.length === 1 && unit.children[0].nodes.length > 1;
  box.append(heading(chain[0], chain, true), el("div", "why", together
    ? "Position not known. They share one leaf because there are many: they only look near to each other."
    : "Position not known: near to nothing, each on a leaf of its own."), wide(unit.all.filter(n => view.inside.has(n))));
  return box;
}

const columns = (size, most = 16) => size <= 9 ? Math.max(size, 1) : size <= 2 * most ? Math.ceil(size / 2) : most;

function bodyOf(t) {
  const parts = [], widest = leaves => Math.max(1, ...leaves.map(u => u.nodes.length));
  if (t.kind === "tree") {
    const leaves = units.filter(u => u.topology === t.index && !u.children.length && !u.lost);
    const cols = columns(widest(leaves));
    for (const root of t.units) {
      let top = root;
      while (top.children.length === 1 && top.children[0].role === "switch" && top.depth === 0) top = top.children[0];
      const tops = t.units.length === 1 && root.children.some(c => c.role === "switch") ? root.children : [root];
      tops.filter(within).forEach(u => parts.push(frame(u, cols)));
    }
  } else if (t.kind === "block") {
    const base = t.sizes[0] || 0, largest = t.sizes[t.sizes.length - 1] || base;
    const cols = columns(Math.max(base, widest(t.units)), 18), together = Math.max(1, largest / base);
    const placed = t.units.filter(u => !u.lost && (together > 1 || u.role === "pad" || within(u))), lost = t.units.filter(u => u.lost && within(u));
    if (together > 1) for (let k = 0; k < placed.length; k += together) {
      parts.push(el("div", "level", el("div", "cap", `level of ${largest}`), el("div", "leaves", ...placed.slice(k, k + together).map(u => leaf(u, cols, base)))));
    } else parts.push(el("div", "leaves plain", ...placed.map(u => leaf(u, cols, base))));
    if (lost.length) {
      const box = el("section", "switch lost", el("div", "uh", el("span", "name", "unplaced")), el("div", "why", "UltraServer not known: a block each, near to nothing."), wide(lost.flatMap(u => u.nodes)));
      box.style.marginTop = "12px"; parts.push(box);
    }
  }
  return parts;
}

function flatBody(p) {
  const groups = new Map();
  for (const n of p.nodes) { const g = N.group[n]; if (!groups.has(g)) groups.set(g, []); groups.get(g).push(n); }
  return [...groups].map(([g, nodes]) => {
    const types = [...new Set(nodes.map(n => text(N.type[n])).filter(Boolean))].join(", ");
    const box = el("section", "switch", el("div", "uh", el("span", "name", text(g) || "no group known"), el("span", "room", `${types}${types ? " · " : ""}${D.live ? `${count(nodes, isFree)} ${FREE} of ${nodes.length}` : plural(nodes.length, "node")}`)));
    box.append(wide(nodes));
    return box;
  });
}

function draw() {
  const p = partitions[view.partition], t = topologies[p.topology];
  watcher.disconnect(); cellOf.clear(); view.order = []; view.inside = new Set(p.nodes);
  const longest = Math.max(0, ...p.nodes.slice(0, 40).map(n => N.name[n].length));
  view.density = p.nodes.length <= 40 && longest <= 24 ? "named" : p.nodes.length <= 130 ? "airy" : p.nodes.length <= 700 ? "roomy" : p.nodes.length <= 4000 ? "compact" : "dense";
  stage.className = `${view.density}${view.byJob ? " byjob" : ""}`;
  stage.style.setProperty("--w", longest);
  const shown = t.kind === "flat" ? flatBody(p) : bodyOf(t);
  if (t.kind !== "flat" && t.uncovered.size) {
    const bare = p.nodes.filter(n => t.uncovered.has(n));
    if (bare.length) shown.push(el("section", "switch lost", el("div", "uh", el("span", "name", "in no switch or block")), el("div", "why", "Slurm refuses or holds jobs that need these nodes."), wide(bare)));
  }
  stage.replaceChildren(head(p, t), ...shown);
  mark();
}

function head(p, t) {
  const box = el("div", "head"), title = el("div", "title", el("h2", "", p.name), el("span", "tag", t.kind));
  if (t.name !== t.kind) title.append(el("span", "tag plain mono", t.name));
  if (!D.meta.kubernetes) title.append(el("span", "tag plain", p.word ? `Topology=${p.word}` : t.default ? "cluster default" : "no word"));
  const others = t.partitions.filter(n => n !== p.name);
  if (others.length && t.kind !== "flat") title.append(el("span", "tag plain", `shared with ${others.join(", ")}`));
  box.append(title, el("p", "rule", p.rule || ""));
  const facts = el("div", "facts"), fact = (value, of, words) => facts.append(el("div", "fact", el("b", "", value, of ? el("small", "", ` ${of}`) : ""), el("span", "", words)));
  const size = p.nodes.length, whole = t.kind === "block" ? "block" : "leaf";
  fact(size.toLocaleString("en"), "", size === 1 ? "node" : "nodes");
  if (t.kind !== "flat") {
    const mine = units.filter(u => u.topology === t.index && u.role === whole && !u.lost && within(u)).length;
    fact(mine.toLocaleString("en"), "", t.kind === "block" ? `${mine === 1 ? "block" : "blocks"}${t.sizes.length ? `, base size ${t.sizes[0]}` : ""}` : mine === 1 ? "leaf" : "leaves");
    const lost = count(p.nodes, n => t.unplaced.has(n));
    if (lost) fact(lost.toLocaleString("en"), "", "unplaced");
  }
  if (D.live) {
    fact(count(p.nodes, isFree).toLocaleString("en"), `of ${size.toLocaleString("en")}`, `${FREE} now`);
    const rows = t.kind === "flat" ? [] : room(t, p.nodes);
    rows.forEach(([level, most], k) => { if (k === 0 || k < rows.length - 1) fact(most.toLocaleString("en"), "", level === 0 ? `${FREE} in one ${whole}, at most` : `${FREE} under one switch${level > 1 ? ` (level ${level + 1})` : ""}, at most`); });
  }
  box.append(facts);
  if (p.refused.length) {
    const track = el("div", "track");
    for (const [a, b] of p.refused) { const i = el("i"); i.style.left = `${(a - 1) / size * 100}%`; i.style.width = `${(b - a + 1) / size * 100}%`; i.title = ranges([[a, b]]); track.append(i); }
    box.append(el("div", "ruler", el("div", "", "Job sizes this partition can run; ", el("b", "", `refused: ${ranges(p.refused)}`)), track, el("div", "ends", el("span", "", "1"), el("span", "", `${size}`))));
  }
  box.append(legend(p));
  return box;
}

function legend(p) {
  const box = el("div", "legend");
  if (!D.live) { box.append(el("span", "", el("i", "n unknown"), "node (states not known: Slurm was not asked)")); return box; }
  const seen = new Map();
  for (const n of p.nodes) seen.set(stateOf(n), (seen.get(stateOf(n)) || 0) + 1);
  for (const s of STATES) if (seen.has(s)) {
    const b = el("button", "", el("i", `n ${s}`), `${s} ${seen.get(s).toLocaleString("en")}`);
    b.type = "button"; b.dataset.state = s; b.title = `Show only ${s} nodes`;
    box.append(b);
  }
  return box;
}
