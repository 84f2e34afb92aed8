// Wiring: header, partitions, search, selection, keys, theme, print.
function chips() {
  const m = D.meta, box = $("chips"), chip = (words, cls = "", title = "") => { const c = el("span", `chip ${cls}`, words); c.title = title; box.append(c); };
  $("cluster").textContent = m.cluster;
  if (m.generation != null) chip(`generation ${m.generation}`);
  if (m.slurm) chip(`Slurm ${m.slurm}`);
  chip(`shown: ${m.shown}`, m.shown === "desired" ? "warn" : "");
  if (m.kubernetes) chip("Kubernetes");
  else if (!m.known) chip("in force: not known", "warn", "slurmctld could not be asked and nothing was ever applied");
  else chip(m.drift ? "change pending" : "no change pending", m.drift ? "warn" : "ok");
  if (m.failed) chip("last pass failed", "bad", m.failed);
  if (m.hold) chip("on hold", "warn", m.hold);
  if (m.owner) chip(m.owner[0], "warn", m.owner[1]);
}

function partitionBar() {
  $("partitions").replaceChildren(...partitions.map((p, k) => {
    const t = topologies[p.topology], b = el("button", "part"), size = p.nodes.length;
    b.type = "button"; b.dataset.p = k; b.setAttribute("aria-current", k === view.partition);
    b.append(el("div", "row", el("b", "", p.name), el("span", "kind", t.kind)));
    if (D.live) {
      const free = count(p.nodes, isFree), busy = count(p.nodes, n => BUSY.has(stateOf(n)) && !OUT.has(stateOf(n))), out = count(p.nodes, n => OUT.has(stateOf(n)));
      const bar = el("div", "bar");
      for (const [k2, colour] of [[busy, "var(--allocated)"], [out, "var(--down)"], [free, "var(--idle-edge)"]]) if (k2) { const i = el("i"); i.style.flex = k2; i.style.background = colour; bar.append(i); }
      b.append(el("div", "sub", `${free.toLocaleString("en")} ${FREE} of ${size.toLocaleString("en")}`), bar);
    } else b.append(el("div", "sub", plural(size, "node")));
    return b;
  }));
}

function mark() {
  const hits = view.hits;
  stage.classList.toggle("filtering", !!hits);
  for (const [n, i] of cellOf) { i.classList.toggle("hit", !!hits && hits.has(n)); i.classList.toggle("sel", n === view.node); }
  for (const card of stage.querySelectorAll("[data-card]")) {
    const unit = units[card.dataset.card];
    card.classList.toggle("nohit", !!hits && !unit.all.some(n => hits.has(n)));
    card.classList.toggle("sel", +card.dataset.card === view.unit);
  }
}

function search(query) {
  view.query = query.trim().toLowerCase(); view.job = null; view.at = -1;
  const q = view.query;
  if (!q) { view.hits = null; $("found").textContent = ""; mark(); return; }
  const hits = new Set();
  for (let n = 0; n < COUNT; n++) if (N.name[n].toLowerCase().includes(q) || (N.instance[n] || "").includes(q) || stateOf(n) === q || text(N.type[n]) === q) hits.add(n);
  const exact = units.filter(u => u.name.toLowerCase() === q);
  for (const u of exact.length ? exact : units.filter(u => u.name.toLowerCase().includes(q))) for (const n of u.all) hits.add(n);
  for (const j of jobs) if (j.label === q || j.name.toLowerCase().includes(q) || j.user.toLowerCase() === q) for (const n of j.nodes) hits.add(n);
  view.hits = hits;
  const here = new Set(partitions[view.partition].nodes), inside = count(hits, n => here.has(n));
  $("found").textContent = hits.size === inside ? `${hits.size}` : `${inside} here, ${hits.size} in all`;
  if (!inside && hits.size) {
    const first = hits.values().next().value, having = [...partitions.keys()].filter(k => partitions[k].nodes.includes(first));
    const other = having.find(k => topologies[partitions[k].topology].kind !== "flat") ?? having[0] ?? -1;
    if (other >= 0) { view.partition = other; partitionBar(); draw(); drawPanel(); $("found").textContent = `${hits.size}`; }
  }
  mark();
  const near = [...hits].some(n => { const i = cellOf.get(n); if (!i) return false; const r = i.getBoundingClientRect(); return r.top > 60 && r.bottom < innerHeight; });
  const first = near ? undefined : view.order.find(n => hits.has(n));
  if (first !== undefined) reveal(first);
}
function nextHit() {
  const list = view.order.filter(n => view.hits && view.hits.has(n));
  if (!list.length) return;
  view.at = (view.at + 1) % list.length;
  selectNode(list[view.at]);
}

function reveal(n) {
  let i = cellOf.get(n);
  if (!i) {
    const box = [...stage.querySelectorAll(".cells")].find(b => b.nodes.includes(n));
    if (box) { fill(box); i = cellOf.get(n); }
  }
  if (i) { const r = i.getBoundingClientRect(); if (r.top < 70 || r.bottom > innerHeight - 10) i.scrollIntoView({ block: "center" }); }
  return i;
}
function selectNode(n, focus = false) { view.node = n; view.unit = -1; const i = reveal(n); mark(); drawPanel(); if (focus && i) i.focus({ preventScroll: true }); }
function selectUnit(id) { view.unit = id; view.node = -1; mark(); drawPanel(); }
function selectJob(k) {
  const job = jobs[k];
  view.job = view.job === job ? null : job; $("search").value = ""; $("found").textContent = "";
  view.hits = view.job && job.nodes.length ? new Set(job.nodes) : null;
  mark(); drawPanel();
  if (view.hits) reveal(job.nodes[0]);
}
function clear() { view.node = view.unit = -1; view.job = null; $("search").value = ""; search(""); drawPanel(); }
function choose(k) { if (k < 0 || k >= partitions.length || k === view.partition) return; view.partition = k; view.node = view.unit = -1; partitionBar(); draw(); drawPanel(); if (view.query) search(view.query); scrollTo(0, 0); }
function colour(byJob) { view.byJob = byJob; $("by-job").setAttribute("aria-pressed", byJob); $("by-state").setAttribute("aria-pressed", !byJob); stage.classList.toggle("byjob", byJob); }

const keep = { get: () => { try { return localStorage.getItem("theme"); } catch { return null; } }, set: v => { try { localStorage.setItem("theme", v); } catch { /* a page opened from a file may keep nothing */ } } };
const theme = v => { document.documentElement.dataset.theme = v; };
theme(keep.get() || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
const turn = () => { const v = document.documentElement.dataset.theme === "dark" ? "light" : "dark"; theme(v); keep.set(v); };

// Up and down go to the nearest cell by where it stands on the screen.
function step(from, key) {
  const order = view.order, at = order.indexOf(from);
  if (key === "ArrowRight" || key === "ArrowLeft") return order[(at + (key === "ArrowRight" ? 1 : order.length - 1)) % order.length];
  const here = cellOf.get(from).getBoundingClientRect(), down = key === "ArrowDown";
  let best = -1, least = Infinity;
  for (const [n, i] of cellOf) {
    const r = i.getBoundingClientRect(), dy = down ? r.top - here.top : here.top - r.top;
    if (dy < here.height * .6) continue;
    const far = dy * 3 + Math.abs(r.left - here.left);
    if (far < least) { least = far; best = n; }
  }
  return best >= 0 ? best : from;
}

function tip(event) {
  const i = event.target.closest?.("i.n[data-n]"), box = $("tip");
  if (!i) { box.hidden = true; return; }
  const n = +i.dataset.n, on = jobsOn.get(n) || [], t = topologies[partitions[view.partition].topology];
  const lines = [el("div", "mono", N.name[n]), el("div", "", D.live ? stateOf(n) : "state not known", N.reason[n] != null ? `: ${text(N.reason[n])}` : "")];
  for (const j of on) lines.push(el("div", "", `job ${j.label} ${j.name} · ${plural(j.nodes.length, "node")}`));
  if (t.leafOf[n] >= 0) lines.push(el("div", "", t.unplaced.has(n) ? `unplaced: ${text(t.unplaced.get(n))}` : wayTo(units[t.leafOf[n]]).map(u => short(u.name)).join(" › ")));
  box.replaceChildren(...lines); box.hidden = false;
  const r = i.getBoundingClientRect(), w = box.offsetWidth, h = box.offsetHeight;
  box.style.left = `${Math.max(8, Math.min(innerWidth - w - 8, r.left + r.width / 2 - w / 2))}px`;
  box.style.top = `${r.top - h - 8 > 4 ? r.top - h - 8 : r.bottom + 8}px`;
}

stage.addEventListener("mouseover", tip);
stage.addEventListener("focusin", tip);
stage.addEventListener("mouseleave", () => { $("tip").hidden = true; });
addEventListener("scroll", () => { $("tip").hidden = true; }, { passive: true });
stage.addEventListener("click", e => {
  const i = e.target.closest("i.n[data-n]"), u = e.target.closest("[data-u]"), s = e.target.closest("[data-state]");
  if (s) { const same = view.query === s.dataset.state; $("search").value = same ? "" : s.dataset.state; search($("search").value); }
  else if (i) selectNode(+i.dataset.n, true); else if (u) selectUnit(+u.dataset.u);
});
panel.addEventListener("click", e => { const j = e.target.closest("[data-j]"); if (j) selectJob(+j.dataset.j); else if (e.target.closest("#close")) { view.node = view.unit = -1; mark(); drawPanel(); } });
$("partitions").addEventListener("click", e => { const b = e.target.closest("[data-p]"); if (b) choose(+b.dataset.p); });
$("search").addEventListener("input", e => search(e.target.value));
$("search").addEventListener("keydown", e => { if (e.key === "Enter") { e.preventDefault(); nextHit(); } });
$("by-state").addEventListener("click", () => colour(false));
$("by-job").addEventListener("click", () => colour(true));
$("theme").addEventListener("click", turn);
$("keys").addEventListener("click", () => $("help").showModal());
addEventListener("keydown", e => {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.key === "Escape") { clear(); document.activeElement.blur?.(); return; }
  if (e.target.matches("input")) return;
  const n = document.activeElement?.dataset?.n;
  if (e.key.startsWith("Arrow")) {
    if (!view.order.length || (n == null && document.activeElement !== document.body && document.activeElement !== stage)) return;
    e.preventDefault();
    const to = n == null ? view.order[0] : step(+n, e.key), i = reveal(to);
    if (i) i.focus();
  } else if (e.key === "Enter" && n != null) selectNode(+n, true);
  else if (e.key === "/") { e.preventDefault(); $("search").focus(); }
  else if (e.key === "t") turn();
  else if (e.key === "j") colour(!view.byJob);
  else if (e.key === "?") $("help").showModal();
  else if (e.key === "[") choose(view.partition - 1);
  else if (e.key === "]") choose(view.partition + 1);
});
addEventListener("beforeprint", () => { view.all = true; view.theme = document.documentElement.dataset.theme; theme("light"); stage.querySelectorAll(".cells").forEach(fill); });
addEventListener("afterprint", () => { view.all = false; theme(view.theme); });

view.partition = Math.max(0, D.first);
chips(); partitionBar();
if (partitions.length) { draw(); drawPanel(); } else stage.append(el("p", "muted", "No partition is known."));
document.documentElement.dataset.ready = "1";
