// The box of the tool, drawn from above and from the side, with the arm in it; corners are dragged or typed.
const SVG = "http://www.w3.org/2000/svg";
const STEP_M = 0.01, LEAST_M = 0.02;
const round = (value) => Math.round(value / STEP_M) * STEP_M;
const tidy = (value) => Number(value.toFixed(3));

function shape(kind, attributes) {
  const element = document.createElementNS(SVG, kind);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

export class Box {
  constructor(top, side, corners, changed) {
    this.low = [0, 0, 0];
    this.high = [1, 1, 1];
    this.home = null;  // the arm there, and as it stands now
    this.now = null;
    this.poses = new Map();  // name -> the arm there
    this.table = 0;
    this.changed = changed;
    // axis to the right, axis upwards, and their signs on the picture
    this.views = [{ svg: top, across: 1, up: 0, sign: -1 }, { svg: side, across: 0, up: 2, sign: 1 }];
    this.inputs = { low: [], high: [] };
    for (const [name, text] of [["low", "lower corner"], ["high", "upper corner"]]) {
      const row = corners.tBodies[0].insertRow();
      row.append(Object.assign(document.createElement("th"), { scope: "row", textContent: text }));
      for (const axis of [0, 1, 2]) {
        const input = Object.assign(document.createElement("input"), { type: "number", step: STEP_M });
        input.setAttribute("aria-label", `${text}, ${"xyz"[axis]} in metres`);
        input.addEventListener("input", () => {
          if (!Number.isFinite(input.valueAsNumber)) return;
          this[name][axis] = input.valueAsNumber;
          this.changed();
        });
        this.inputs[name].push(input);
        row.insertCell().append(input);
      }
    }
    this.views.forEach((view) => this.listen(view));
  }

  place([low, high], home) {
    this.low = [...low];
    this.high = [...high];
    this.home = home;
    this.fill();
  }

  fill() {
    for (const name of ["low", "high"]) this.inputs[name].forEach((input, axis) => { input.value = tidy(this[name][axis]); });
  }

  // reaches to a place too
  stretch(place) {
    place.forEach((value, axis) => {
      this.low[axis] = Math.min(this.low[axis], tidy(value - STEP_M));
      this.high[axis] = Math.max(this.high[axis], tidy(value + STEP_M));
    });
    this.fill();
  }

  // metres that a picture shows: the base, the box, arms and the table, with a margin
  reach({ across, up }) {
    const arms = [this.home, this.now, ...this.poses.values()].filter(Boolean);
    const values = (axis) => [0, this.low[axis], this.high[axis], ...arms.flatMap((arm) => arm.line_m.map((place) => place[axis])), ...(axis === 2 && this.table !== null ? [this.table] : [])];
    const span = [across, up].map((axis) => [Math.min(...values(axis)), Math.max(...values(axis))]);
    const size = 1.25 * Math.max(0.4, ...span.map(([from, to]) => to - from));
    return { size, middle: span.map(([from, to]) => (from + to) / 2) };
  }

  draw() {
    for (const view of this.views) {
      const { svg, across, up, sign } = view;
      if (!view.held) view.shown = this.reach(view);  // the scale stays while a corner is dragged
      const { size, middle } = view.shown;
      const x = (value) => sign * (value - middle[0]), y = (value) => middle[1] - value;
      const seen = ["the box", ...(this.home ? ["the arm at home"] : []), ...(this.now ? ["the arm now"] : []), ...[...this.poses.keys()].map((name) => `the pose ${name}`)];
      svg.setAttribute("aria-label", `${seen.join(", ")}, from ${up === 2 ? "the side" : "above"}`);
      svg.setAttribute("viewBox", `${-size / 2} ${-size / 2} ${size} ${size}`);
      const lines = [];
      const half = size / 2;
      for (let at = Math.floor(-2 * half * 10) / 10; at <= 2 * half; at += 0.1) {
        const here = Math.round((at + (middle[0])) * 10) / 10, there = Math.round((at + middle[1]) * 10) / 10;
        lines.push(shape("line", { class: "grid", x1: x(here), x2: x(here), y1: -half, y2: half }));
        lines.push(shape("line", { class: "grid", x1: -half, x2: half, y1: y(there), y2: y(there) }));
      }
      const corners = [[x(this.low[across]), y(this.high[up])], [x(this.high[across]), y(this.low[up])]];
      const left = Math.min(corners[0][0], corners[1][0]), over = Math.min(corners[0][1], corners[1][1]);
      const wide = Math.abs(corners[1][0] - corners[0][0]), high = Math.abs(corners[1][1] - corners[0][1]);
      const dot = size / 60;
      svg.replaceChildren(
        ...lines,
        ...(up === 2 && this.table !== null ? [shape("line", { class: "table", x1: -half, x2: half, y1: y(this.table), y2: y(this.table) })] : []),
        ...[["home", this.home], ["now", this.now]].filter(([, arm]) => arm).map(([name, arm]) => shape("polyline", { class: `arm ${name}`, points: arm.line_m.map((at) => `${x(at[across])},${y(at[up])}`).join(" ") })),
        shape("rect", { class: "base", x: x(0) - dot, y: y(0) - dot, width: 2 * dot, height: 2 * dot }),
        shape("rect", { class: "box", x: left, y: over, width: wide, height: high }),
        ...["low", "high"].map((name) => shape("circle", { class: "grip", "data-name": name, cx: x(this[name][across]), cy: y(this[name][up]), r: 1.3 * dot })),
      );
      const mark = (name, place, ahead, kind) => {
        const [atX, atY] = [x(place[across]), y(place[up])];
        if (kind !== "base") svg.append(shape("circle", { class: kind, cx: atX, cy: atY, r: dot }));
        if (ahead) svg.append(shape("line", { class: kind, x1: atX, y1: atY, x2: x(ahead[across]), y2: y(ahead[up]) }));
        const right = atX > 0;
        const text = shape("text", { x: atX + (right ? -1.5 : 1.5) * dot, y: atY - 1.5 * dot, "font-size": 2.2 * dot, "text-anchor": right ? "end" : "start" });
        text.textContent = name;
        svg.append(text);
      };
      mark("base", [0, 0, 0], null, "base");
      if (this.home) mark("home", this.home.line_m.at(-1), this.home.ahead_m, "home");
      if (this.now) mark("now", this.now.line_m.at(-1), this.now.ahead_m, "now");
      for (const [name, arm] of this.poses) mark(name, arm.line_m.at(-1), arm.ahead_m, "pose");
    }
  }

  listen(view) {
    const { svg, across, up, sign } = view;
    const place = (event) => {
      const { left, top, width } = svg.getBoundingClientRect();
      const { size, middle } = view.shown;
      const scale = size / width;
      return [middle[0] + sign * ((event.clientX - left) * scale - size / 2), middle[1] - ((event.clientY - top) * scale - size / 2)];
    };
    svg.addEventListener("pointerdown", (event) => {
      const name = event.target.dataset.name || (event.target.classList.contains("box") ? "box" : "");
      if (!name) return;
      view.held = { name, from: place(event), low: [...this.low], high: [...this.high] };
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", (event) => {
      if (!view.held) return;
      const { name, from, low, high } = view.held;
      place(event).forEach((value, index) => {
        const axis = index === 0 ? across : up;
        const by = round(value - from[index]);
        if (name !== "high") this.low[axis] = tidy(low[axis] + by);
        if (name !== "low") this.high[axis] = tidy(high[axis] + by);
        if (name === "low") this.low[axis] = Math.min(this.low[axis], tidy(this.high[axis] - LEAST_M));
        if (name === "high") this.high[axis] = Math.max(this.high[axis], tidy(this.low[axis] + LEAST_M));
      });
      this.fill();
      this.draw();
    });
    const end = () => { if (view.held) { view.held = null; this.changed(); } };
    svg.addEventListener("pointerup", end);
    svg.addEventListener("pointercancel", end);
  }
}
