// Curves of one episode, or of two on one axis: progress, what was done and proposed, what was measured.
/* global uPlot */
import { spansOf } from "./track.js";

const LEFT = 46, RIGHT = 10, POINTS = 400;
const COLOURS = ["c0", "c1", "c2", "c3", "c4", "c5"];

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const short = (value) => (value === null || value === undefined ? "–" : Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(2));

// what is drawn, of one episode: panels of lines {label, values, colour, dash}, one value a frame
function panelsOf(track, shown, proposals) {
  const { episode } = track;
  const panels = [];
  panels.push({ name: "progress Φ", range: [0, 1.02], high: true, phi: true, lines: track.scores ? [
    { label: "Φ", values: track.scores.progress, colour: "c0", width: 2.5 },
    { label: "success", values: track.scores.success, colour: "c2", width: 1.5 },
  ] : [] });
  for (const group of episode.actions) {
    const lines = group.entries.map((entry, index) => ({ label: group.labels[index], values: episode.executed[entry], colour: COLOURS[index], width: 2 }));
    if (proposals && episode.proposed) {
      group.entries.forEach((entry, index) => lines.push({ of: index, values: episode.proposed[entry], colour: COLOURS[index], width: 1, dash: [4, 4] }));
    }
    panels.push({ name: group.name, action: true, lines });
  }
  for (const signal of episode.signals) {
    if (!shown.has(signal.name)) continue;
    panels.push({ name: signal.name, unit: signal.unit, lines: signal.values.map((values, index) =>
      ({ label: signal.labels[index], values, colour: COLOURS[index % COLOURS.length], width: 2 })) });
  }
  return panels;
}

export class Plots {
  constructor(root, pickVersion) {
    this.root = root;
    this.pickVersion = pickVersion;
    this.charts = [];
    new ResizeObserver(() => { for (const chart of this.charts) chart.plot.setSize({ width: root.clientWidth, height: chart.height }); }).observe(root);
  }

  // tracks: one, or two to compare; `by` what the axis is; `end` where it ends
  show(tracks, by, end, shown) {
    for (const chart of this.charts) chart.plot.destroy();
    this.charts = [];
    this.root.replaceChildren();
    this.told = false;
    [this.tracks, this.by, this.end] = [tracks, by, end];
    const two = tracks.length > 1;
    const all = tracks.map((track) => panelsOf(track, shown, !two));
    all[0].forEach((panel, index) => {
      const other = two ? all[1].find((each) => each.name === panel.name) : null;
      this.add(panel, other, index === all[0].length - 1);
    });
  }

  add(panel, other, lowest) {
    const two = this.tracks.length > 1;
    const box = document.createElement("figure");
    box.className = "plot";
    const head = document.createElement("figcaption");
    const name = document.createElement("b");
    name.textContent = panel.name + (panel.unit ? ` [${panel.unit}]` : "");
    head.append(name);
    if (panel.phi) head.append(...this.versions());
    const values = panel.lines.filter((line) => line.label).map((line) => {
      const key = document.createElement("span");
      key.className = "key";
      key.style.setProperty("--line", `var(--${line.colour})`);
      const text = document.createElement("span");
      key.append(text);
      head.append(key);
      return text;
    });
    const hint = document.createElement("small");
    hint.textContent = two ? "A solid, B dashed" 
      : panel.action && !this.told && this.tracks[0].episode.proposed ? "executed solid, proposed by the policy dashed (in brackets)" : "";
    head.append(hint);
    this.told = this.told || Boolean(panel.action);
    box.append(head);
    this.root.append(box);
    if (!panel.lines.length) {
      const none = document.createElement("p");
      none.className = "none";
      none.textContent = "no reward model has scored this episode";
      box.append(none);
      return;
    }
    const room = document.createElement("div");
    box.append(room);
    const height = (panel.high ? 132 : 92) + (lowest ? 24 : 0);
    const plot = new uPlot(this.options(panel, other, height, lowest), this.data(panel, other), room);
    plot.root.setAttribute("aria-hidden", "true");
    this.charts.push({ plot, panel, other, values, height });
  }

  versions() {
    const { scores } = this.tracks[0].episode;
    if (!scores.length) return [];
    if (scores.length === 1) return [`by ${scores[0].version.slice(0, 12)}`];
    const pick = document.createElement("select");
    pick.id = "version";
    pick.setAttribute("aria-label", "Version of the reward model");
    scores.forEach((each, index) => pick.add(new Option(each.version.slice(0, 12) + (index ? "" : " (newest)"), each.version)));
    pick.value = this.tracks[0].scores.version;
    pick.addEventListener("change", () => this.pickVersion(pick.value));
    return [pick];
  }

  data(panel, other) {
    const two = this.tracks.length > 1;
    if (!two) {
      const { t } = this.tracks[0].episode;
      return [t, ...panel.lines.map((line) => t.map((_, frame) => line.values[frame] ?? null))];
    }
    const axis = Array.from({ length: POINTS }, (_, index) => index * this.end / (POINTS - 1));
    const rows = [axis];
    [panel, other].forEach((each, index) => {
      const track = this.tracks[index];
      const frames = axis.map((at) => (at > track.at(track.episode.t.length - 1, this.by) + 1e-6 ? null : track.frameAt(at, this.by)));
      for (const line of each ? each.lines : []) rows.push(frames.map((frame) => (frame === null ? null : line.values[frame] ?? null)));
    });
    return rows;
  }

  options(panel, other, height, lowest) {
    const look = { stroke: colour("soft"), grid: { stroke: colour("line"), width: 0.5 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const range = panel.action ? around([...panel.lines, ...(other ? other.lines : [])]) : panel.range;
    const lines = panel.lines.map((line) => ({ stroke: colour(line.colour), width: line.width, dash: line.dash, points: { show: false }, spanGaps: false }));
    if (this.tracks.length > 1 && other) {
      lines.push(...other.lines.map((line) => ({ stroke: colour(line.colour), width: line.width, dash: [5, 4], points: { show: false } })));
    }
    return {
      width: this.root.clientWidth, height, legend: { show: false }, cursor: { show: false }, padding: [6, RIGHT, lowest ? 0 : 2, 0],
      scales: { x: { time: false, range: () => [0, this.end] }, y: range ? { range: () => range } : { range: (_, low, high) => wide(low, high) } },
      series: [{}, ...lines],
      axes: [
        { ...look, show: lowest, size: 24, values: (_, ticks) => ticks.map((tick) => `${Number(tick.toFixed(2))}${this.by === "time" ? " s" : ""}`) },
        { ...look, size: LEFT, space: 20 },
      ],
      hooks: { drawClear: [(chart) => this.shade(chart)] },
    };
  }

  // where an operator had the arm, behind the curves of one episode
  shade(chart) {
    if (this.tracks.length > 1) return;
    const { ctx, bbox } = chart;
    const [track] = this.tracks;
    ctx.save();
    ctx.fillStyle = colour("tint");
    for (const [who, first, behind] of spansOf(track.episode.source)) {
      if (who !== "human" && who !== "idle") continue;
      const left = chart.valToPos(track.episode.t[first], "x", true);
      const right = chart.valToPos(track.episode.t[behind], "x", true);
      ctx.fillRect(left, bbox.top, right - left, bbox.height);
    }
    ctx.restore();
  }

  // the values at a frame of each track, beside the names of the lines
  tell(frames) {
    for (const { panel, other, values } of this.charts) {
      const named = panel.lines.filter((line) => line.label);
      named.forEach((line, index) => {
        const parts = [short(line.values[frames[0]])];
        const proposal = panel.lines.find((each) => each.of === index);
        if (proposal) parts.push(`(${short(proposal.values[frames[0]])})`);
        if (other && other.lines[index]) parts.push("·", short(other.lines[index].values[frames[1]]));
        values[index].textContent = `${line.label} ${parts.join(" ")}`;
      });
    }
  }
}

// actions around 0, as far as they go
function around(lines) {
  const most = 1.1 * Math.max(0.2, ...lines.flatMap((line) => line.values.map(Math.abs)));
  return [-most, most];
}

function wide(low, high) {
  if (low === null) return [0, 1];
  const room = Math.max((high - low) * 0.12, 1e-3);
  return [low >= 0 && low - room < 0 ? 0 : low - room, high + room];
}

export { LEFT, RIGHT };
