// Curves of online training over robot time: success, with and without help, human share, Q and its gradient share.
/* global uPlot */
const LEAST_MS = 500, LEFT = 54, RIGHT = 26;
const dark = matchMedia("(prefers-color-scheme: dark)");
let plots = null;
let told = null;
let drawnMs = -LEAST_MS;
let timer = 0;

const at = (id) => document.getElementById(id);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const percent = (value) => (value === null || value === undefined ? "–" : `${Math.round(100 * value)} %`);
const newest = (values) => values.filter((value) => value !== null).at(-1);

function make(room, height, series, range, values, lowest) {
  const look = { stroke: colour("ink"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line") } };
  const minutes = (_, ticks) => ticks.map((tick) => `${Number(tick.toFixed(2))} min`);
  const plot = new uPlot({
    width: Math.max(200, room.clientWidth), height, legend: { show: false }, cursor: { show: false }, padding: [6, RIGHT, 0, 0],
    scales: { x: { time: false, range: (_, low, high) => [0, Math.max(high || 0, 1)] }, y: { range } },
    series: [{}, ...series.map((line) => ({ spanGaps: true, ...line }))],
    axes: [{ ...look, size: 28, values: minutes, show: lowest }, { ...look, size: LEFT, values }],
  }, [[], ...series.map(() => [])], room);
  plot.root.setAttribute("aria-hidden", "true");
  return plot;
}

function lay() {
  if (plots) for (const plot of Object.values(plots)) plot.destroy();
  const wide = (_, low, high) => {
    if (low === null) return [0, 1];
    const room = Math.max(0.1 * (high - low), 0.05);
    return [low - room, high + room];
  };
  plots = {
    shares: make(at("shares"), 180, [
      { stroke: colour("soft"), width: 2, dash: [2, 4] },
      { stroke: colour("human"), width: 2.5, dash: [8, 5] },
      { stroke: colour("curve"), width: 3 },
      { stroke: colour("good"), width: 2 },
    ], () => [0, 1.02], (_, ticks) => ticks.map((tick) => `${Math.round(100 * tick)} %`), true),
    values: make(at("values"), 90, [{ stroke: colour("curve"), width: 2 }], wide, (_, ticks) => ticks.map((tick) => Number(tick.toFixed(2))), false),
  };
}

// one time line for rows of two kinds: each has gaps where the other has rows
function joined(episodes, updates) {
  const t = [...new Set([...episodes.t, ...updates.t])].sort((one, other) => one - other);
  const place = (times, values) => {
    const by = new Map(times.map((time, index) => [time, values[index]]));
    return t.map((time) => by.get(time) ?? null);
  };
  return [t, place(updates.t, updates.q_share), place(episodes.t, episodes.human), place(episodes.t, episodes.success), place(episodes.t, episodes.alone)];
}

function draw() {
  if (!plots) lay();
  const { episodes, updates } = told;
  const end = Math.max(episodes.t.at(-1) || 0, updates.t.at(-1) || 0, 1);
  plots.shares.setData(joined(episodes, updates), false);
  plots.values.setData([updates.t, updates.q], false);
  plots.shares.setScale("x", { min: 0, max: end });
  plots.values.setScale("x", { min: 0, max: end });
  const q = newest(updates.q);
  at("q").textContent = q === undefined ? "–" : q.toFixed(3);
  at("q-share").textContent = percent(newest(updates.q_share));
  if (!episodes.t.length) return;
  for (const name of ["success", "alone", "human"]) at(`${name}-share`).textContent = percent(episodes[name].at(-1));
  at("learned").textContent = `last ${Math.min(episodes.count, 20)} of ${episodes.count}, ${episodes.t.at(-1).toFixed(1)} min of robot time`;
}

function drawInTurn() {
  timer = 0;
  try {
    draw();
  } finally {
    drawnMs = performance.now();
  }
}

// at most twice a second, however often rows come and however long a drawing takes
export function showLearning(learning) {
  told = learning;
  if (!timer) timer = setTimeout(drawInTurn, Math.max(0, drawnMs + LEAST_MS - performance.now()));
}

dark.addEventListener("change", () => { if (plots) { lay(); draw(); } });
new ResizeObserver(() => {
  if (plots) for (const [name, plot] of Object.entries(plots)) plot.setSize({ width: Math.max(200, at(name).clientWidth), height: plot.height });
}).observe(at("learning"));
