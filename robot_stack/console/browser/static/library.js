// The list of episodes: filtered, sorted, one chosen and perhaps another beside it.
import { OUTCOMES, svg } from "./shapes.js";

export const KINDS = { demo: "demonstration", online: "online", eval: "evaluation" };
const BY = { operator: "by an operator", model: "by the model", recorded: "as recorded" };
const SORTS = {
  id: (row) => row.id,
  outcome: (row) => row.outcome,
  human: (row) => row.course?.human ?? -1,
  takeovers: (row) => row.course?.takeovers ?? -1,
  s: (row) => seconds(row),
};
let rate = 1;

const field = (id) => document.getElementById(`f-${id}`);
const seconds = (row) => row.course?.s ?? row.steps / rate;

export function numberOf(id) {
  const head = id.split("-")[0];
  return /^\d+$/.test(head) ? head.replace(/^0+(?=.)/, "") : id;
}

function fits(row) {
  const text = field("text").value.trim().toLowerCase();
  const help = field("help").value;
  const [least, most] = [field("least").valueAsNumber, field("most").valueAsNumber];
  return (!text || [row.id, row.task, row.actor, row.note].some((each) => each.toLowerCase().includes(text)))
    && (!field("outcome").value || row.outcome === field("outcome").value)
    && (!field("kind").value || row.kind === field("kind").value)
    && (!field("by").value || row.by === field("by").value)
    && (!help || (row.course !== null && (row.course.takeovers > 0) === (help === "yes")))
    && !(seconds(row) < least) && !(seconds(row) > most);
}

function cell(row, ...content) {
  const made = document.createElement("td");
  made.append(...content);
  row.append(made);
  return made;
}

function small(text) {
  const made = document.createElement("small");
  made.textContent = text;
  return made;
}

function strip(course) {
  const made = document.createElement("span");
  made.className = "mini";
  if (!course) return made;
  const all = course.spans.reduce((sum, span) => sum + span[1], 0);
  for (const [who, count] of course.spans) {
    const part = document.createElement("i");
    part.className = `who ${who}`;
    part.style.width = `${(100 * count / all).toFixed(2)}%`;
    made.append(part);
  }
  return made;
}

export function outcomeWords(row) {
  const made = document.createElement("span");
  made.className = `outcome ${row.outcome}`;
  made.append(svg(OUTCOMES[row.outcome === "open" ? "none" : row.outcome]), row.outcome);
  return made;
}

export class Library {
  constructor(choose, compare) {
    this.choose = choose;
    this.compare = compare;
    this.rows = [];
    this.shown = [];
    this.chosen = "";
    this.beside = "";
    this.sort = ["id", 1];
    this.body = document.querySelector("#list tbody");
    const anew = () => this.draw();
    for (const each of document.querySelectorAll("#filters input, #filters select")) each.addEventListener("input", anew);
    document.getElementById("filters").addEventListener("submit", (event) => event.preventDefault());
    field("clear").addEventListener("click", () => { document.getElementById("filters").reset(); anew(); });
    for (const head of document.querySelectorAll("#list th[data-sort]")) {
      head.firstChild.addEventListener("click", () => {
        const by = head.dataset.sort;
        this.sort = [by, this.sort[0] === by ? -this.sort[1] : 1];
        anew();
      });
    }
    this.body.addEventListener("click", (event) => {
      const line = event.target.closest("tr");
      if (!line) return;
      if (event.target.closest(".beside")) this.compare(line.dataset.id);
      else this.choose(line.dataset.id);
    });
  }

  show(said) {
    rate = said.rate_hz;
    this.rows = said.episodes.map((row) => ({ ...row, ...(said.waiting[row.id] ? { outcome: said.waiting[row.id], by: "operator" } : {}) }));
    this.aside(said);
    this.draw();
  }

  find(id) { return this.rows.find((row) => row.id === id); }

  mark(chosen, beside) {
    [this.chosen, this.beside] = [chosen, beside];
    for (const line of this.body.rows) this.paint(line);
  }

  // the episode before (-1) or after (1) the chosen one, as the list is sorted
  next(way) {
    const at = this.shown.findIndex((row) => row.id === this.chosen);
    const row = this.shown[at < 0 ? 0 : Math.min(Math.max(at + way, 0), this.shown.length - 1)];
    if (!row) return;
    this.choose(row.id);
    [...this.body.rows].find((line) => line.dataset.id === row.id).scrollIntoView({ block: "nearest" });
  }

  draw() {
    const [by, way] = this.sort;
    const value = SORTS[by];
    const order = (one, other) => (value(one) < value(other) ? -way : value(one) > value(other) ? way : one.id < other.id ? -1 : 1);
    this.shown = this.rows.filter(fits).sort(order);
    for (const head of document.querySelectorAll("#list th[data-sort]")) {
      if (head.dataset.sort === by) head.setAttribute("aria-sort", way > 0 ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    }
    const held = document.activeElement?.closest?.("#list tbody tr")?.dataset.id;
    const button = document.activeElement?.className;
    const known = new Map([...this.body.rows].map((line) => [line.dataset.id, line]));
    this.body.replaceChildren(...this.shown.map((row) => this.line(row, known.get(row.id))));
    if (held) [...this.body.rows].find((line) => line.dataset.id === held)?.querySelector(`.${button}`)?.focus();
    const unread = this.rows.filter((row) => row.course === null).length;
    document.getElementById("shown").textContent = `${this.shown.length} of ${this.rows.length} episodes`
      + (unread ? `; who was in control is still read of ${unread}` : "");
  }

  line(row, known) {
    const told = JSON.stringify(row);
    if (known && known.told === told) return known;
    const line = document.createElement("tr");
    line.told = told;
    line.dataset.id = row.id;
    const pick = document.createElement("button");
    pick.type = "button";
    pick.className = "pick";
    pick.textContent = numberOf(row.id);
    pick.setAttribute("aria-label", `episode ${row.id}`);
    cell(line, pick, small(row.kind));
    cell(line, outcomeWords(row), small(row.outcome === "open" ? row.end : BY[row.by]));
    cell(line, strip(row.course), small(row.course ? `${Math.round(100 * row.course.human)} % human` : "…"));
    cell(line, row.course ? (row.kind === "demo" ? "–" : `${row.course.takeovers}×`) : "…").className = "number";
    cell(line, `${seconds(row).toFixed(1)} s`).className = "number";
    const beside = document.createElement("button");
    beside.type = "button";
    beside.className = "beside";
    beside.textContent = "⇄";
    beside.title = "compare with the chosen episode";
    beside.setAttribute("aria-label", `compare with episode ${row.id}`);
    cell(line, beside);
    this.paint(line);
    return line;
  }

  paint(line) {
    line.classList.toggle("chosen", line.dataset.id === this.chosen);
    line.classList.toggle("second", line.dataset.id === this.beside);
    if (line.dataset.id === this.chosen) line.querySelector(".pick").setAttribute("aria-current", "true");
    else line.querySelector(".pick").removeAttribute("aria-current");
  }

  // what is no row: episodes that run, and broken ones with why
  aside(said) {
    const items = said.running.map((id) => ["running", `${id} is not closed`, "still being written, or its writer died; it is listed once it has ended"]);
    items.push(...Object.entries(said.broken).map(([id, why]) => ["broken", `${id} is quarantined`, why]));
    document.getElementById("aside").replaceChildren(...items.map(([kind, what, why]) => {
      const item = document.createElement("li");
      item.className = kind;
      const name = document.createElement("b");
      name.textContent = what;
      item.append(name, small(why));
      return item;
    }));
  }
}
