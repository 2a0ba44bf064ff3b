// What is known of the chosen episode, and what a person does with it: a verdict, a stage mark, a trim, an export.
import { post } from "./api.js";
import { stageName } from "./band.js";
import { onPress } from "./buttons.js";
import { copy } from "./figures.js";
import { KINDS, numberOf, outcomeWords } from "./library.js";

const at = (id) => document.getElementById(id);
const VERDICTS = ["success", "failure", "discard"];
const BY = { operator: "said by an operator", model: "said by the reward model", recorded: "as the episode was recorded" };

function button(text, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.append(...text);
  onPress(made, act);
  return made;
}

function key(name) {
  const made = document.createElement("kbd");
  made.textContent = name.toUpperCase();
  return made;
}

// the other program's page, where a browser did not let it open by itself
function link(opens) {
  const made = document.createElement("a");
  Object.assign(made, { href: opens.address, target: "_blank", rel: "noopener", textContent: `open it in ${opens.with}` });
  return made;
}

function copyable(command) {
  const made = document.createElement("code");
  made.textContent = command;
  return made;
}

export function stagesOf(row) {
  if (!row) return [];
  const marked = new Set(row.stages.map((mark) => mark.stage));
  const proposed = row.proposed.filter((mark) => !marked.has(mark.stage)).map((mark) => ({ ...mark, proposed: true }));
  return [...row.stages, ...proposed].sort((a, b) => a.frame - b.frame);
}

export class Desk {
  constructor(player, notice, refresh) {
    this.player = player;
    this.notice = notice;
    this.refresh = refresh;
    this.episode = null;
    this.trims = new Map();
    this.undone = null;
    player.kept = (episode) => this.trims.get(episode.id) || null;
    onPress(at("from"), () => this.cut(0));
    onPress(at("to"), () => this.cut(1));
    onPress(at("write"), () => this.write());
    for (const each of document.querySelectorAll("[data-format]")) {
      onPress(each, () => this.make(each, "/api/export", { episode: this.episode.id, format: each.dataset.format }));
    }
    setInterval(() => this.countDown(), 250);
  }

  // lays the buttons, whose keys the server names; what cannot be written there says what it needs
  lay(keys, stages, remedies) {
    this.keys = keys;
    this.names = stages;
    if (at("say").children.length) return;
    for (const each of document.querySelectorAll("[data-format]")) {
      if (!remedies[each.dataset.format]) continue;
      each.disabled = true;
      const said = document.createElement("p");
      said.className = "remedy";
      said.append(`${each.textContent}: `, copyable(remedies[each.dataset.format]));
      at("elsewhere").append(said);
    }
    at("say").append(...VERDICTS.map((verdict) => button([key(keys[verdict]), ` ${verdict}`], () => this.say(verdict))));
    at("stage-here").append(key(keys.stage), " a stage begins here");
    onPress(at("stage-here"), () => this.press("stage"));
  }

  // while the next episode is fetched nothing is done with the one that is still shown
  get fetching() { return at("desk").inert; }

  set fetching(value) { at("desk").inert = value; }

  // false, and said so, while what a key is meant for is not shown yet
  get ready() {
    if (this.fetching) this.notice("that episode is still on its way; press again once it is shown");
    return !this.fetching;
  }

  press(what) {
    if (!this.ready) return;
    if (what === "stage") this.stageHere(); else this.say(what);
  }

  show(episode, row) {
    this.episode = episode;
    this.row = row;
    at("desk").hidden = !episode;
    if (!episode || !row) return;
    this.listStages(row);
    at("title").textContent = `Episode ${numberOf(episode.id)}${this.player.tracks.length > 1 ? " (A)" : ""}`;
    at("verdict").replaceChildren(outcomeWords(row), ` ${BY[row.by]}`);
    const facts = [
      ["id", episode.id], ["kind", KINDS[episode.kind]], ["task", `${episode.task}: ${episode.text}`],
      ["started", new Date(1000 * episode.started).toLocaleString()], ["ended as", episode.end],
      ["length", `${episode.t[episode.t.length - 1].toFixed(2)} s, ${episode.source.length} steps`],
      ["take-overs", row.course ? `${row.course.takeovers}, ${Math.round(100 * row.course.human)} % human` : ""],
      ["clamped", `${episode.clipped.length} steps`],
      ["policy", episode.params[1] ? `versions ${episode.params[0]} to ${episode.params[1]}` : ""],
      ["start", [episode.reset, episode.seed >= 0 ? `seed ${episode.seed}` : "", `help level ${episode.level}`].filter(Boolean).join(", ")],
      ["actor", episode.actor], ["note", row.note],
      ...row.labels.map((label) => ["label", `${label.verdict} by ${label.source}, ${new Date(1000 * label.at).toLocaleString()}${label.note ? `: ${label.note}` : ""}`]),
    ];
    at("facts").replaceChildren(...facts.filter(([, value]) => value).flatMap(([name, value]) => {
      const [term, text] = [document.createElement("dt"), document.createElement("dd")];
      [term.textContent, text.textContent] = [name, value];
      return [term, text];
    }));
  }

  // marks and, of stages without one, what a model proposes
  listStages(row) {
    at("stages").replaceChildren(...stagesOf(row).map((mark) => {
      const item = document.createElement("li");
      item.className = mark.proposed ? "proposed" : "";
      const name = stageName(mark.stage, mark.name);
      const go = button([`${name} from frame ${mark.frame}${mark.proposed ? ", proposed" : ""}`], () => this.player.toFrame(mark.frame));
      const act = button([mark.proposed ? "accept" : "✕"], () => this.stage(mark.stage, mark.frame, !mark.proposed));
      act.setAttribute("aria-label", `${mark.proposed ? "accept" : "remove"} the mark of ${name}`);
      item.append(go, act);
      return item;
    }));
  }

  // the stage after those that begin earlier
  stageHere() {
    if (!this.episode || this.player.tracks.length !== 1) { this.notice("one episode must be shown to be marked; end the comparison"); return; }
    const [frame] = this.player.frames;
    this.stage(1 + this.row.stages.filter((mark) => mark.frame < frame).length, frame, false);
  }

  async stage(stage, frame, removed) {
    if (await this.ask("/api/mark", { episode: this.episode.id, stage, frame, removed })) this.refresh();
  }

  async say(verdict) {
    if (!this.episode) return;
    const said = await this.ask("/api/label", { episode: this.episode.id, verdict });
    if (said) this.refresh();
  }

  async undo() {
    const done = await this.ask("/api/undo", {});
    if (done) this.refresh();
  }

  // what can be undone, and until when
  waiting(said) {
    const before = this.undone && this.undone.id;
    this.undone = said.undo ? { ...said.undo, until: performance.now() + 1000 * said.undo.left_s } : null;
    this.error = said.error;
    this.open = Object.keys(said.waiting).length;
    if ((this.undone && this.undone.id) !== before || !this.undone) this.undoButton = null;
    this.countDown();
  }

  countDown() {
    const place = at("back-in");
    if (this.undone && performance.now() < this.undone.until) {
      if (!this.undoButton) {
        this.undoButton = button([key("u"), " undo"], () => this.undo());
        this.said = document.createElement("span");
        place.replaceChildren(this.undoButton, this.said);
      }
      const left = Math.ceil((this.undone.until - performance.now()) / 1000);
      const words = ` ${numberOf(this.undone.id)} is ${this.undone.verdict}: written in ${left} s`;
      if (this.said.textContent !== words) this.said.textContent = words;
      return;
    }
    this.undoButton = null;
    const words = this.error ? `not written${this.open ? " yet" : ""}: ${this.error}` : this.open ? "being written" : "";
    if (place.textContent !== words) place.textContent = words;
  }

  // the first (0) or last (1) frame that stays is the one that is shown
  cut(which) {
    if (!this.ready) return;
    if (!this.episode || this.player.tracks.length !== 1) { this.notice("one episode must be shown to be trimmed; end the comparison"); return; }
    const last = this.episode.t.length - 1;
    const kept = [...(this.trims.get(this.episode.id) || [0, last])];
    kept[which] = this.player.frames[0];
    if (kept[0] >= kept[1]) { this.notice("the first frame that stays must be before the last; move on, then press again"); return; }
    if (kept[0] === 0 && kept[1] === last) this.trims.delete(this.episode.id);
    else this.trims.set(this.episode.id, kept);
    this.listTrims();
  }

  listTrims() {
    at("trims").replaceChildren(...[...this.trims].map(([id, [first, last]]) => {
      const item = document.createElement("li");
      const drop = button(["✕"], () => { this.trims.delete(id); this.listTrims(); });
      drop.setAttribute("aria-label", `do not trim ${id}`);
      item.append(`${numberOf(id)}: frames ${first} to ${last}`, drop);
      return item;
    }));
    at("write").disabled = !this.trims.size;
    this.player.lay();
  }

  async write() {
    const trims = Object.fromEntries([...this.trims].map(([id, [first, last]]) => [id, { first, last }]));
    if (await this.make(at("write"), "/api/trim", { trims })) {
      this.trims.clear();
      this.listTrims();
    }
  }

  async make(pressed, path, body) {
    pressed.disabled = true;
    pressed.setAttribute("aria-busy", "true");
    const made = await this.ask(path, body);
    pressed.disabled = false;
    pressed.removeAttribute("aria-busy");
    if (!made) return false;
    const room = at("made");
    const [title, folder, said, command] = ["h3", "p", "p", "code"].map((kind) => document.createElement(kind));
    title.textContent = "Written";
    folder.textContent = made.folder;
    folder.className = "path";
    said.textContent = made.said.join("; ");
    command.textContent = made.command;
    const take = button(["copy the command"], () => copy(made.command).then(() => this.notice("copied"), () => this.notice("the browser does not let a page copy; mark it by hand")));
    room.replaceChildren(title, folder, ...(made.opens ? [link(made.opens)] : []), said, command, take);
    room.hidden = false;
    room.scrollIntoView({ block: "nearest" });
    if (made.opens) window.open(made.opens.address, "_blank", "noopener");
    return true;
  }

  async ask(path, body) {
    try {
      return await post(path, body);
    } catch (error) {
      this.notice(error.message);
      return null;
    }
  }
}
