// A finished episode beside the live view, in the episode browser's player, which is loaded when it is first asked for.
import { KINDS } from "./banner.js";
import { Once, onPress } from "./buttons.js";
import { outcomeOf } from "./episodes.js";

const NARROW_PX = 700;  // as in console.css: there the panel is longer than the screen
const at = (id) => document.getElementById(id);

export class Playback {
  constructor(link, notice) {
    this.link = link;
    this.notice = notice;
    this.rows = new Map();
    this.turn = 0;
    this.episode = null;
    this.player = null;
    this.once = new Once();
    at("list").addEventListener("click", (event) => {
      const button = event.target.closest("[data-play]");
      if (button && this.once.allows(button.dataset.play)) this.open(button.dataset.play);
    });
    onPress(at("unplay"), () => this.close());
  }

  get labels() {
    const row = this.rows.get(this.episode.id);
    return row && row.verdict ? [{ verdict: row.verdict, source: row.by }] : [];
  }

  async open(id) {
    this.turn += 1;
    const mine = this.turn;
    try {
      const [{ Player }, api] = await Promise.all([import("./player.js"), import("./api.js")]);
      api.useToken(this.link.token);
      const episode = await api.get(api.episodePath(id));
      if (mine !== this.turn) return;
      this.player = this.player || this.make(Player);
      this.episode = episode;
      at("playback").hidden = false;  // first, as curves are drawn in the room that they have
      this.player.load([episode]);
      this.tell();
      at("playback").focus({ preventScroll: true });
      // once it has its full height
      requestAnimationFrame(() => at("playback").scrollIntoView({ block: innerWidth > NARROW_PX ? "nearest" : "start" }));
    } catch (error) {
      this.once.refused(id);
      if (mine === this.turn) this.notice(error.message);
    }
  }

  make(Player) {
    const player = new Player(this.notice);
    player.labels = () => this.labels;
    player.stages = () => this.episode.stages;
    return player;
  }

  close() {
    this.turn += 1;
    this.player.close();
    at("playback").hidden = true;
    const { id } = this.episode;
    this.episode = null;
    this.mark();
    this.once.took(id);  // the focus goes to its button, where a second Enter would open it again
    document.querySelector(`[data-play="${CSS.escape(id)}"]`)?.focus();
  }

  // the list has changed: what is said of the episode that is open may have
  show(episodes) {
    const before = this.episode && JSON.stringify(this.labels);
    const open = this.episode && this.rows.get(this.episode.id);  // it may have left the list
    this.rows = new Map([...(open ? [open] : []), ...episodes].map((row) => [row.id, row]));
    if (!this.episode) return;
    this.tell();
    if (JSON.stringify(this.labels) !== before) this.player.lay();
  }

  tell() {
    const { id, kind, end } = this.episode;
    const row = this.rows.get(id) || { number: id, kind, end };  // its row may have been the oldest
    at("recorded").textContent = `RECORDING of episode ${row.number}`;
    at("about").textContent = [KINDS[row.kind] || row.kind, outcomeOf(row)[1], row.note].filter(Boolean).join(" · ");
    this.mark();
  }

  mark() {
    for (const button of document.querySelectorAll("[data-play]")) {
      if (this.episode && button.dataset.play === this.episode.id) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    }
  }
}
