// Plays one episode, or two side by side: images, curves and who was in control, all at the moment of the scrubber.
import { makeBand } from "./band.js";
import { onPress } from "./buttons.js";
import { Film, Screen } from "./film.js";
import { LEFT, Plots, RIGHT } from "./plots.js";
import { Track } from "./track.js";

const at = (id) => document.getElementById(id);
const WHO = { policy: "policy in control", human: "human in control", idle: "human, still", hold: "hold" };
const SIDES = ["A", "B"];
const SPEEDS = [[0.1, "0.1×"], [0.25, "¼×"], [0.5, "½×"], [1, "1×"], [2, "2×"], [4, "4×"], [8, "8×"]];

export class Player {
  constructor(notice) {
    this.notice = notice;
    this.tracks = [];
    this.films = [];
    this.screens = [];
    this.by = "time";
    this.moment = 0;
    this.playing = false;
    this.pace = SPEEDS.findIndex(([speed]) => speed === 1);
    this.kept = () => null;  // the frames of an episode that a trim keeps
    this.labels = () => [];  // what was said of an episode
    this.stages = () => [];  // where its stages begin, marked or proposed
    this.signals = null;
    this.plots = new Plots(at("plots"), (version) => { for (const track of this.tracks) track.use(version); this.lay(); });
    onPress(at("play"), () => this.toggle());
    at("first").addEventListener("click", () => this.seek(0));
    at("last").addEventListener("click", () => this.seek(this.end));
    at("back").addEventListener("click", () => this.step(-1));
    at("on").addEventListener("click", () => this.step(1));
    at("slower").addEventListener("click", () => this.faster(-1));
    at("faster").addEventListener("click", () => this.faster(1));
    at("scrub").addEventListener("input", () => this.seek(Number(at("scrub").value) / 1000 * this.end));
    for (const radio of document.querySelectorAll("#align input")) radio.addEventListener("change", () => this.align(radio.value));
    at("lanes").addEventListener("pointerdown", (event) => this.drag(event));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.lay());
  }

  get end() {
    if (!this.tracks.length) return 1;
    return Math.max(...this.tracks.map((track) => (this.by === "time" ? track.seconds : track.top))) || 1;
  }

  get frames() { return this.tracks.map((track) => track.frameAt(this.moment, this.by)); }

  get speed() { return SPEEDS[this.pace][0]; }

  // one episode, or two to compare
  load(episodes, version) {
    this.stop();
    for (const film of this.films) film.close();
    this.tracks = episodes.map((episode) => new Track(episode, version));
    this.films = episodes.map((episode) => new Film(episode, (error) => (error ? this.fail(error) : this.paint())));
    this.screens = episodes.map((episode, index) => new Screen(episode, episodes.length > 1 ? `${SIDES[index]} · ${episode.id}` : episode.id));
    at("films").replaceChildren(...this.screens.map((screen) => screen.root));
    at("films").classList.toggle("two", episodes.length > 1);
    if (this.signals === null) this.signals = new Set(episodes[0].signals.filter((each) => each.first).map((each) => each.name));
    const scored = this.tracks.every((track) => track.top > 0);
    at("align").hidden = episodes.length < 2;
    const progress = document.querySelector("#align [value=progress]");
    progress.disabled = !scored;
    progress.parentElement.title = scored ? "" : "a reward model must have scored both";
    if (episodes.length < 2 || !scored) this.by = "time";
    document.querySelector(`#align [value=${this.by}]`).checked = true;
    at("playing").hidden = false;
    this.more();
    this.moment = 0;
    this.lay();
  }

  close() {
    this.stop();
    for (const film of this.films) film.close();
    [this.tracks, this.films, this.screens] = [[], [], []];
    at("playing").hidden = true;
  }

  fail(error) {
    this.stop();
    this.notice(error.message);
  }

  align(by) {
    const frame = this.frames[0];
    this.by = by;
    this.moment = this.tracks[0].at(frame, by);
    this.lay();
  }

  // draws what does not move with the scrubber
  lay() {
    if (!this.tracks.length) return;
    const two = this.tracks.length > 1;
    at("bands").replaceChildren(...this.tracks.flatMap((track, index) => this.bandsOf(track, two ? SIDES[index] : "")));
    this.plots.show(this.tracks, this.by, this.end, this.signals);
    this.seek(this.moment);
  }

  // one band, or one for each of several arms
  bandsOf(track, side) {
    const { episode } = track;
    const shareOf = (frame) => track.at(frame, this.by) / this.end;
    const kept = side ? null : this.kept(episode);
    const arms = episode.arms.length ? episode.arms : [{ name: "", source: episode.source }];
    return arms.map((arm, index) => makeBand(track, arm.source, [side, arm.name].filter(Boolean).join(" "),
      shareOf, kept, index ? null : this.labels(episode.id), this.stages(episode.id)));
  }

  more() {
    const box = document.querySelector("#more div");
    at("more").hidden = !this.tracks[0].episode.signals.length;
    box.replaceChildren(...this.tracks[0].episode.signals.map((signal) => {
      const label = document.createElement("label");
      const check = document.createElement("input");
      check.type = "checkbox";
      check.checked = this.signals.has(signal.name);
      check.addEventListener("change", () => {
        if (check.checked) this.signals.add(signal.name); else this.signals.delete(signal.name);
        this.lay();
      });
      label.append(check, ` ${signal.name}`);
      return label;
    }));
  }

  seek(moment) {
    this.moment = Math.min(Math.max(moment, 0), this.end);
    const share = this.moment / this.end;
    at("scrub").value = String(1000 * share);
    at("cursor").style.left = `calc(${LEFT}px + ${share.toFixed(5)} * (100% - ${LEFT + RIGHT}px))`;
    const { frames } = this;
    const words = frames.map((frame, index) => {
      const track = this.tracks[index];
      return `${frames.length > 1 ? `${SIDES[index]} ` : ""}${track.episode.t[frame].toFixed(2)} s, frame ${frame} of ${track.episode.t.length - 1}, ${WHO[track.who(frame)] || "no step"}`;
    });
    at("moment").textContent = words.join("  |  ");
    at("scrub").setAttribute("aria-valuetext", words.join("; "));
    this.plots.tell(frames);
    this.paint();
  }

  // false while images of this moment are on their way
  paint() {
    return this.frames.map((frame, index) => {
      const images = this.films[index].frame(frame);
      if (images && this.screens[index].shown !== frame) {
        this.screens[index].shown = frame;
        this.screens[index].draw(images);
      }
      return Boolean(images);
    }).every(Boolean);
  }

  toFrame(frame) {
    this.stop();
    this.seek(this.tracks[0].at(frame, this.by));
  }

  step(way) {
    this.stop();
    const frame = this.frames[0] + way;
    const [track] = this.tracks;
    if (!track || frame < 0 || frame >= track.episode.t.length) return;
    this.seek(track.at(frame, this.by));
  }

  jump(seconds) { this.seek(this.moment + (this.by === "time" ? seconds : seconds * this.end / 10)); }

  faster(way) {
    this.pace = Math.min(Math.max(this.pace + way, 0), SPEEDS.length - 1);
    at("speed").textContent = SPEEDS[this.pace][1];
  }

  toggle() {
    if (this.playing) { this.stop(); return; }
    if (!this.tracks.length) return;
    if (this.moment >= this.end - 1e-6) this.seek(0);
    this.playing = true;
    at("play").textContent = "❚❚";
    at("play").setAttribute("aria-label", "pause");
    let before = performance.now();
    const tick = (now) => {
      if (!this.playing) return;
      const passed = Math.min(now - before, 200) / 1000 * this.speed;
      before = now;
      if (this.paint()) {
        const longest = Math.max(...this.tracks.map((track) => track.seconds));
        this.pass(this.by === "time" ? passed : passed * this.end / longest);
        if (this.moment >= this.end - 1e-6) this.stop();
      }
      requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }

  // on by so much; the page is drawn anew only where other frames begin
  pass(moments) {
    const before = String(this.frames);
    this.moment = Math.min(this.moment + moments, this.end);
    if (String(this.frames) !== before) this.seek(this.moment);
  }

  stop() {
    this.playing = false;
    at("play").textContent = "▶";
    at("play").setAttribute("aria-label", "play");
  }

  drag(event) {
    if (event.target.closest("select, input, label, summary") || !event.target.closest(".strip, .u-over, .marks")) return;
    event.preventDefault();
    this.stop();
    const lanes = at("lanes");
    const go = (moved) => {
      const box = lanes.getBoundingClientRect();
      this.seek((moved.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT) * this.end);
    };
    const end = () => { lanes.removeEventListener("pointermove", go); };
    go(event);
    lanes.setPointerCapture(event.pointerId);
    lanes.addEventListener("pointermove", go);
    for (const kind of ["pointerup", "pointercancel"]) lanes.addEventListener(kind, end, { once: true });
  }
}
