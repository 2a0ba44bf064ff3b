// Asks which of two moments got further: the second before each plays again and again, and one key answers.
import { episodePath, get, post } from "./api.js";
import { onPress } from "./buttons.js";
import { Film, Screen } from "./film.js";

const at = (id) => document.getElementById(id);
const CLIP_S = 1, HOLD_MS = 900;
const ANSWERS = [
  ["first", "ArrowLeft", "←", "the left one"], ["second", "ArrowRight", "→", "the right one"],
  ["same", "ArrowDown", "↓", "both the same"], ["unknown", "?", "?", "cannot say"],
];

function session() {
  let name = localStorage.getItem("session");
  if (!/^[0-9a-z-]{8,64}$/.test(name || "")) {
    name = Array.from(crypto.getRandomValues(new Uint8Array(8)), (byte) => byte.toString(16).padStart(2, "0")).join("");
    localStorage.setItem("session", name);
  }
  return name;
}

// One of the two: its images up to the frame, which is held before they begin again.
class Side {
  constructor(place, episode, caption, notice) {
    this.place = place;
    this.episode = episode;
    this.film = new Film(episode, (error) => (error ? notice(error.message) : this.paint()));
    this.screen = new Screen(episode, caption);
    const { t } = episode;
    this.first = Math.max(0, t.findIndex((time) => time >= t[place.frame] - CLIP_S));
    this.frame = place.frame;  // the one in question is there at once
    this.since = null;
    this.film.frame(this.first);
    this.film.frame(this.frame);
  }

  paint() {
    const images = this.film.frame(this.frame);
    if (images && this.shown !== this.frame) { this.shown = this.frame; this.screen.draw(images); }
  }

  tick(now) {
    if (this.since === null) this.since = now - HOLD_MS;
    const { t } = this.episode;
    const length = 1000 * (t[this.place.frame] - t[this.first]);
    const passed = (now - this.since) % (length + HOLD_MS);
    let frame = this.first;
    while (frame < this.place.frame && 1000 * (t[frame + 1] - t[this.first]) <= passed) frame += 1;
    this.frame = frame;
    this.paint();
  }

  close() { this.film.close(); }
}

export class Comparison {
  constructor(notice) {
    this.notice = notice;
    this.ahead = [];  // pairs that are being fetched while the one before is looked at
    this.before = null;
    this.sides = null;
    at("answers").append(...ANSWERS.map(([answer, , key, words]) => {
      const made = document.createElement("button");
      const cap = document.createElement("kbd");
      cap.textContent = key;
      made.type = "button";
      made.dataset.answer = answer;
      made.append(cap, ` ${words}`);
      onPress(made, () => this.answer(answer));
      return made;
    }));
    onPress(at("again"), () => this.back());
    onPress(at("enough"), () => at("further").close());
    at("further").addEventListener("close", () => this.stop());
  }

  get open() { return at("further").open; }

  // while an answer is written or a pair fetched no other answer is taken: it would be of another pair
  get busy() { return at("further").getAttribute("aria-busy") === "true"; }

  set busy(value) { at("further").setAttribute("aria-busy", String(value)); }

  async start() {
    at("further").showModal();
    this.before = null;
    await this.next();
    const tick = (now) => {
      if (!this.open) return;
      for (const side of this.sides || []) side.tick(now);
      requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }

  stop() {
    for (const side of [...(this.sides || []), ...(this.before || [])]) side.close();
    for (const pair of this.ahead) pair.then((sides) => sides?.forEach((side) => side.close()), () => {});
    [this.sides, this.before, this.ahead] = [null, null, []];
    at("pair").replaceChildren();
  }

  async fetch() {
    const { pair, answers } = await get("/api/pair");
    this.answers = answers;
    if (!pair) return null;
    const episodes = await Promise.all(pair.map(({ episode }) => get(episodePath(episode))));
    return pair.map((place, index) => new Side(place, episodes[index], index ? "right" : "left", this.notice));
  }

  async next() {
    this.busy = true;
    try {
      while (this.ahead.length < 2) this.ahead.push(this.fetch());
      const sides = await this.ahead.shift();
      if (this.open) this.show(sides);
      else sides?.forEach((side) => side.close());
    } catch (error) {
      this.ahead = [];
      this.notice(error.message);
      at("further").close();
    }
    this.busy = false;
  }

  show(sides) {
    this.sides = sides;
    at("pair").replaceChildren(...(sides || []).map((side) => side.screen.root));
    at("again").disabled = !this.before;
    for (const button of at("answers").children) button.disabled = !sides;
    at("asked").textContent = sides ? `${this.answers} answers so far` : "nothing is left to compare: two episodes must have ended";
  }

  async answer(further) {
    if (this.busy || !this.sides) return;
    const { sides } = this;
    const [first, second] = sides.map((side) => side.place);
    this.busy = true;
    try {
      await post("/api/prefer", { first, second, further, session: session() });
    } catch (error) {
      this.notice(error.message);
      this.busy = false;
      return;
    }
    for (const side of this.before || []) side.close();
    this.before = sides;
    await this.next();
  }

  // the newest answer of a person on a pair counts
  back() {
    if (this.busy || !this.before) return;
    if (this.sides) this.ahead.unshift(Promise.resolve(this.sides));
    const { before } = this;
    this.before = null;
    this.show(before);
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const found = ANSWERS.find(([, key]) => key === event.key);
    if (!found && event.key.toLowerCase() !== "u") return;
    event.preventDefault();
    if (event.repeat) return;
    if (found) this.answer(found[0]); else this.back();
  }
}
