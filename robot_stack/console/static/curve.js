// Progress and success of the running episode, the threshold, and the spans in which an operator drove.
/* global uPlot */
const HEIGHT = 260;
let plot = null;
let spans = [];
let marks = [];
let threshold = null;
let limit = 1;
let elapsed = 0;
let watcher = null;
let told = null;
const dark = matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", () => { if (plot) { layCurve(limit); if (told) showCurve(told); } });

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function hatched(context) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const pen = tile.getContext("2d");
  pen.fillStyle = colour("tint");
  pen.fillRect(0, 0, 8, 8);
  pen.strokeStyle = colour("orange");
  pen.lineWidth = 2;
  pen.beginPath();
  for (const shift of [-8, 0, 8]) { pen.moveTo(shift, 8); pen.lineTo(shift + 8, 0); }
  pen.stroke();
  return context.createPattern(tile, "repeat");
}

function drawSpans(chart) {
  const { ctx, bbox } = chart;
  ctx.save();
  ctx.fillStyle = hatched(ctx);
  for (const [from, to] of spans) {
    const left = Math.max(bbox.left, chart.valToPos(from, "x", true));
    const right = Math.min(bbox.left + bbox.width, chart.valToPos(to === null ? elapsed : to, "x", true));
    if (right > left) ctx.fillRect(left, bbox.top, right - left, bbox.height);
  }
  ctx.restore();
}

function drawThreshold(chart) {
  if (threshold === null) return;
  const { ctx, bbox } = chart;
  const y = chart.valToPos(threshold, "y", true);
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colour("bad");
  ctx.lineWidth = 2;
  ctx.setLineDash([3, 4]);
  ctx.beginPath();
  ctx.moveTo(bbox.left, y);
  ctx.lineTo(bbox.left + bbox.width, y);
  ctx.stroke();
  ctx.textAlign = "left";
  ctx.textBaseline = "bottom";
  ctx.setLineDash([]);
  ctx.strokeStyle = colour("card");
  ctx.lineWidth = 5;
  const words = [`threshold ${threshold}`, bbox.left + 6, y - 4];
  ctx.strokeText(...words);
  ctx.fillText(...words);
  ctx.restore();
}

// where an operator marked that a stage begins
function drawMarks(chart) {
  const { ctx, bbox } = chart;
  ctx.save();
  ctx.textAlign = "left";
  ctx.textBaseline = "top";
  for (const [at, name] of marks) {
    const x = chart.valToPos(at, "x", true);
    ctx.strokeStyle = ctx.fillStyle = colour("ink");
    ctx.lineWidth = 2;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.strokeStyle = colour("card");
    ctx.lineWidth = 5;
    ctx.strokeText(name, x + 4, bbox.top + 4);
    ctx.fillText(name, x + 4, bbox.top + 4);
  }
  ctx.restore();
}

export function layCurve(limitS) {
  limit = limitS;
  const room = document.getElementById("plot");
  room.replaceChildren();
  const look = { stroke: colour("ink"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line") } };
  const options = {
    width: Math.max(200, room.clientWidth), height: HEIGHT, legend: { show: false }, cursor: { show: false },
    scales: { x: { time: false, range: () => [0, limit] }, y: { range: () => [0, 1.02] } },
    series: [
      {},
      { label: "progress", stroke: colour("curve"), width: 3, spanGaps: true },
      { label: "success", stroke: colour("ink"), width: 2, dash: [8, 5], spanGaps: true },
    ],
    axes: [{ label: "s", size: 34, labelSize: 14, ...look }, { size: 34, ...look }],
    hooks: { drawClear: [drawSpans], draw: [drawThreshold, drawMarks] },
  };
  plot = new uPlot(options, [[], [], []], room);
  if (watcher) watcher.disconnect();
  watcher = new ResizeObserver(() => plot.setSize({ width: Math.max(200, room.clientWidth), height: HEIGHT }));
  watcher.observe(room);
}

export function showCurve(curve) {
  told = curve;
  spans = curve.spans;
  marks = curve.marks;
  threshold = curve.threshold;
  if (plot) plot.setData([curve.t, curve.progress, curve.success]);
}

export function showTime(seconds) {
  elapsed = seconds;
  if (plot && spans.some((span) => span[1] === null)) plot.redraw(false);
}
