// The side: what is selected, what is pending, jobs, generations, notes.
const panel = $("panel");
const row = (dl, term, ...value) => { if (value.some(v => v != null && v !== "")) dl.append(el("dt", "", term), el("dd", "", ...value)); };
const mono = s => s ? el("span", "mono", s) : null;

function way(unit) {
  const box = el("div", "way");
  wayTo(unit).forEach((u, k) => { const d = el("div", "", u.name); d.dataset.in = k ? `${"  ".repeat(k - 1)}└ ` : ""; box.append(d); });
  return box;
}
function closer() { const b = el("button", "close", "×"); b.type = "button"; b.id = "close"; b.setAttribute("aria-label", "Close"); return b; }

function nodeBox(n) {
  const box = el("section", "box focus"), dl = el("dl", "kv"), on = jobsOn.get(n) || [];
  box.id = "selection";
  box.append(el("h3", "", el("span", "mono", N.name[n]), closer()));
  row(dl, "State", D.live ? stateOf(n) : "not known", N.reason[n] != null ? ` · ${text(N.reason[n])}` : "");
  row(dl, on.length > 1 ? "Jobs" : "Job", ...on.map(j => el("div", "", `${j.label} ${j.name} (${j.user})`)));
  row(dl, "Instance", mono(N.instance[n]));
  row(dl, "Type", text(N.type[n]));
  row(dl, "Group", text(N.group[n]));
  row(dl, "Zone", text(N.zone[n]));
  row(dl, "Partitions", partitions.filter(p => p.nodes.includes(n)).map(p => p.name).join(", "));
  for (const t of topologies) {
    if (t.kind === "flat") continue;
    const id = t.leafOf[n];
    if (id >= 0) row(dl, t.name, t.unplaced.has(n) ? el("div", "", `unplaced: ${text(t.unplaced.get(n))}`) : way(units[id]));
    else if (t.uncovered.has(n)) row(dl, t.name, "in no switch or block");
    const source = (D.sources[t.name] || {})[n];
    if (source != null) row(dl, "Placed by", text(source));
  }
  box.append(dl);
  const answers = D.answers[N.answers[n]] || [], silent = D.silent[N.silent[n]] || [];
  if (answers.length || silent.length) {
    box.append(el("h3", "", el("span", "", "What the sources say")));
    const said = el("dl", "kv");
    for (const [source, path, us] of answers) row(said, text(source), el("div", "way", ...path.map((p, k) => { const d = el("div", "", text(p)); d.dataset.in = k ? `${"  ".repeat(k - 1)}└ ` : ""; return d; })), us >= 0 ? el("div", "", "UltraServer ", mono(text(us))) : null);
    for (const [source, why] of silent) row(said, text(source), el("span", "muted", text(why)));
    box.append(said);
    box.querySelectorAll("h3")[1].style.marginTop = "13px";
  }
  return box;
}

function unitBox(unit) {
  const box = el("section", "box focus"), dl = el("dl", "kv"), t = topologies[unit.topology];
  box.id = "selection";
  const word = unit.role === "pad" ? "empty block" : unit.role;
  box.append(el("h3", "", el("span", "mono", unit.name), closer()));
  row(dl, "What", `${word} of ${t.name}`);
  const here = within(unit), shared = here < unit.all.length ? `, ${here} of them in ${partitions[view.partition].name}` : "";
  row(dl, "Nodes", `${unit.all.length}${shared}${unit.role === "block" && t.sizes[0] > unit.all.length ? ` (short: base size is ${t.sizes[0]})` : ""}`);
  if (unit.role === "pad") row(dl, "Why", "keeps a position, so that larger levels form");
  if (D.live) {
    row(dl, FREE === "idle" ? "Idle" : "Ready", `${freeIn(unit)}`);
    const out = count(unit.all, n => OUT.has(stateOf(n)));
    if (out) row(dl, "Out", plural(out, "node"));
  }
  if (unit.parent >= 0) row(dl, "Below", way(units[unit.parent]));
  const on = new Map();
  for (const n of unit.all) for (const j of jobsOn.get(n) || []) on.set(j, (on.get(j) || 0) + 1);
  row(dl, "Jobs", ...[...on].slice(0, 12).map(([j, k]) => el("div", "", `${j.label} ${j.name}: ${k} of ${j.nodes.length} nodes`)), on.size > 12 ? el("div", "muted", `and ${on.size - 12} more`) : null);
  box.append(dl);
  return box;
}

function jobsBox() {
  const p = partitions[view.partition], inside = new Set(p.nodes);
  const box = el("section", "box"), mine = jobs.filter(j => j.nodes.some(n => inside.has(n)) || (!j.nodes.length && j.partition.split(",").includes(p.name)));
  const running = mine.filter(j => j.nodes.length), waiting = mine.filter(j => !j.nodes.length);
  box.append(el("h3", "", el("span", "", "Jobs"), el("small", "", D.jobs ? `${running.length} running · ${waiting.length} pending` : "")));
  if (!D.jobs) box.append(el("p", "muted", D.meta.kubernetes ? "Not known: kubectl was asked for nodes only." : "Not known: squeue was not asked or gave no answer."));
  for (const j of [...running.slice(0, 60), ...waiting.slice(0, 40)]) {
    const b = el("button", "job"), wait = !j.nodes.length;
    b.type = "button"; b.dataset.j = j.index; b.style.setProperty("--h", j.hue); b.setAttribute("aria-pressed", view.job === j);
    b.append(el("span", `sw${wait ? " wait" : ""}`), el("span", "nm", el("b", "", j.label), ` ${j.name} · ${j.user}`), el("span", "ct", plural(wait ? j.wanted : j.nodes.length, "node")));
    const impossible = p.refused.some(([a, b2]) => wait && j.wanted >= a && j.wanted <= b2);
    const words = wait ? [j.reason, j.asks, impossible ? "a size this topology refuses" : ""].filter(Boolean).join(" · ") : [lies(j), j.asks].filter(Boolean).join(" · ");
    if (words) b.append(el("span", `sp${impossible ? " bad" : ""}`, words));
    box.append(b);
  }
  if (running.length > 60 || waiting.length > 40) box.append(el("p", "muted", "Only the first of them are listed; search finds all."));
  if (D.jobs && !mine.length) box.append(el("p", "muted", "None here."));
  return box;
}

function linesBox(title, lines, small) {
  const box = el("section", "box", el("h3", "", el("span", "", title), small ? el("small", "", small) : ""));
  box.append(el("ul", "lines", ...lines.map(l => el("li", "", l))));
  return box;
}
function historyBox() {
  const box = el("section", "box", el("h3", "", el("span", "", "Generations")));
  for (const g of D.generations) {
    const when = el("time", "", g.time ? new Date(g.time * 1000).toLocaleString() : ""), list = el("ul", "", ...g.lines.map(l => el("li", "", l)));
    box.append(el("div", "gen", el("span", "no", `${g.number}`), el("span", "", when, g.by ? el("small", "muted", ` ${g.by}`) : ""), list));
  }
  return box;
}

function drawPanel() {
  const boxes = [];
  if (view.node >= 0) boxes.push(nodeBox(view.node));
  else if (view.unit >= 0) boxes.push(unitBox(units[view.unit]));
  if (D.pending.length) boxes.push(linesBox("Pending change", D.pending, D.meta.shown === "desired" ? "shown here" : "not shown here"));
  boxes.push(jobsBox());
  if (D.generations.length) boxes.push(historyBox());
  if (D.notes.length) boxes.push(linesBox("Notes", D.notes));
  boxes.push(el("div", "foot", D.meta.foot));
  panel.replaceChildren(...boxes);
}
