// The data as it was written, and what follows from it: places of nodes, idle room, spread of jobs.
const D = JSON.parse(document.getElementById("data").textContent);
const S = D.strings, N = D.nodes, COUNT = N.name.length;
const STATES = D.states;

const spread = runs => { const out = []; for (let i = 0; i < runs.length; i += 2) for (let k = 0; k < runs[i + 1]; k++) out.push(runs[i] + k); return out; };
const stateOf = n => D.live ? STATES[N.state[n]] : "unknown";
const text = i => i < 0 ? "" : S[i];

// Units of every topology, flat in `units`, with parents; leaves and blocks hold nodes.
const units = [];
const topologies = D.topologies.map((t, index) => {
  const leafOf = new Int32Array(COUNT).fill(-1);
  const build = (raw, parent, depth) => {
    const [name, role, runs, below, lost] = raw;
    const unit = { id: units.length, name, role, parent, depth, lost: !!lost, topology: index, nodes: spread(runs), children: [] };
    units.push(unit);
    for (const n of unit.nodes) leafOf[n] = unit.id;
    unit.children = below.map(child => build(child, unit.id, depth + 1));
    unit.all = unit.children.length ? unit.children.flatMap(child => child.all) : unit.nodes;
    return unit;
  };
  return { ...t, index, units: t.units.map(raw => build(raw, -1, 0)), leafOf, unplaced: new Map(t.unplaced), uncovered: new Set(spread(t.uncovered)) };
});
const partitions = D.partitions.map(p => ({ ...p, nodes: spread(p.nodes) }));
const jobs = (D.jobs || []).map((j, k) => ({
  label: j[0], name: j[1], user: j[2], state: j[3], partition: j[4], nodes: spread(j[5]), wanted: j[6], reason: j[7], asks: j[8],
  index: k, hue: Math.round((k * 137.508 + 18) % 360),
}));
const jobsOn = new Map();
for (const job of jobs) for (const n of job.nodes) { if (!jobsOn.has(n)) jobsOn.set(n, []); jobsOn.get(n).push(job); }

// A Kubernetes node says that it is ready; whether it is idle is not known.
const FREE = D.meta.kubernetes ? "ready" : "idle";
const isFree = n => stateOf(n) === FREE;
const BUSY = new Set(["allocated", "mixed", "draining"]), OUT = new Set(["down", "drained", "draining"]);
const count = (nodes, test) => { let k = 0; for (const n of nodes) if (test(n)) k++; return k; };
const plural = (k, one, many) => `${k.toLocaleString("en")} ${k === 1 ? one : many || one + "s"}`;
const ranges = pairs => pairs.map(([a, b]) => a === b ? `${a}` : `${a}–${b}`).join(", ");
// A switch or block in `most` characters: ids of one network differ at their ends.
const short = (name, most = 15) => name.length <= most ? name : most < 10 ? `…${name.slice(-4)}` : `${name.slice(0, 3)}…${name.slice(-6)}`;

// From the top to the unit, names of single-child chains included.
const wayTo = unit => { const way = []; for (let u = unit; u; u = u.parent < 0 ? null : units[u.parent]) way.unshift(u); return way; };

// How a job lies in its partition's topology: [leaves or blocks, switches above them].
function lies(job) {
  const p = partitions.find(q => job.partition.split(",").includes(q.name));
  if (!p || !job.nodes.length) return "";
  const t = topologies[p.topology], leaves = new Set(job.nodes.map(n => t.leafOf[n]).filter(id => id >= 0));
  if (!leaves.size) return "";
  if (t.kind === "block") return plural(leaves.size, "block");
  const above = new Set([...leaves].map(id => units[id].parent).filter(id => id >= 0));
  return above.size > 1 ? `${plural(leaves.size, "leaf", "leaves")} under ${above.size} switches` : plural(leaves.size, "leaf", "leaves");
}

// Largest number of idle nodes in one leaf or block, under one switch of each level, and anywhere.
function room(topology, members) {
  const inside = new Set(members), best = new Map();
  for (const top of topology.units) {
    const visit = unit => {
      if (unit.lost) return;
      const level = unit.role === "switch" ? heightOf(unit) : 0;
      if (!(unit.children.length === 1 && unit.role === "switch")) {
        const free = count(unit.all, n => inside.has(n) && isFree(n));
        best.set(level, Math.max(best.get(level) || 0, free));
      }
      unit.children.forEach(visit);
    };
    visit(top);
  }
  return [...best].sort((a, b) => a[0] - b[0]);
}
const heightOf = unit => unit.height ??= unit.children.length ? 1 + Math.max(...unit.children.map(heightOf)) : 0;
