// Buttons and keys, from the one key table that the server sends. Esc is hold, always, and nothing else.
import { AGAIN_MS, Once, onKept, onPress } from "./buttons.js";

const NAMES = { " ": "space", Escape: "esc", ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right" };
const ROOMS = { verdicts: ["success", "failure", "discard"], going: ["stage", "reset_done", "arm", "dismiss"], clearing: ["clear_stop"] };
const VERDICTS = ROOMS.verdicts;
const CLEAR_MS = 1000;
// the state of the banner in which a press has a meaning
const ONLY_IN = { clear_stop: "stop", dismiss: "asks" };
const WORDS = {
  success: "success", failure: "failure", discard: "discard", reset_done: "reset done", arm: "arm / resume",
  clear_stop: "clear the stop", dismiss: "dismiss", stage: "next stage",
};

// The name that the key table has for a key: by what is printed on it, on other alphabets by its place.
export function keyName(event) {
  if (NAMES[event.key]) return NAMES[event.key];
  const latin = /^[\x21-\x7e]$/.test(event.key);
  if (!latin && /^Key[A-Z]$/.test(event.code)) return event.code[3].toLowerCase();
  return event.key.toLowerCase();
}

const ENABLING = ["arm", "clear_stop"];
// what a page has a button for: a policy that never asks for help is never dismissed, a task of one stage has no next
const may = ({ rights, asks, stages }, what) => {
  if (what === "stage") return stages.length > 0;
  return what === "dismiss" ? asks && rights.dismiss : rights.enable || !ENABLING.includes(what);
};
// a field of words takes the keys; the scrubber of an episode does not
const writing = (element) => element instanceof HTMLElement && element.matches("textarea, input:not([type=range])");
// space drives, here or on the device at the robot, and presses no button: Enter does
const spare = (event) => { if (keyName(event) === "space" && !writing(event.target)) event.preventDefault(); };

export class Keys {
  constructor(link, hand, halt) {
    this.link = link;
    this.hand = hand;
    this.halt = halt;
    this.actions = new Map();
    this.once = new Once();
    this.enteredMs = -AGAIN_MS;
    this.drives = new Map();
    this.episode = "";
    this.cease = () => {};
    onPress(document.getElementById("sit"), () => link.act({ k: "sit" }));
    onPress(document.getElementById("undo"), () => link.act({ k: "undo" }));
    addEventListener("keydown", (event) => this.down(event));
    addEventListener("keyup", (event) => this.up(event));
  }

  lay(welcome) {
    this.actions = new Map(Object.entries(welcome.keys).filter(([, key]) => key).map(([action, key]) => [key, action]));
    this.halt.lay(welcome.keys);
    for (const [room, actions] of Object.entries(ROOMS)) {
      const allowed = actions.filter((what) => may(welcome, what));
      document.getElementById(room).replaceChildren(...allowed.map((what) => this.button(what, welcome.keys[what])));
    }
  }

  button(what, key) {
    const button = document.createElement("button");
    button.type = "button";
    button.dataset.what = what;
    button.append(WORDS[what]);
    if (key) {
      const cap = document.createElement("kbd");
      cap.textContent = key.toUpperCase();
      button.append(" ", cap);
    }
    const about = document.createElement("small");
    button.append(about);
    if (what === "clear_stop") {
      about.textContent = "keep pressed 1 s";
      this.cease = onKept(button, CLEAR_MS, () => this.press(what));
    } else {
      button.addEventListener("click", () => this.press(what));
    }
    return button;
  }

  press(what) {
    if (this.halt.takes(what)) this.halt.press(what);
    else if (this.once.allows(what)) {
      const message = VERDICTS.includes(what) ? { k: "press", what, episode: this.episode } : { k: "press", what };
      this.link.act(message);
    }
  }

  down(event) {
    spare(event);
    // while Command is down, a Mac tells of no key that is let go of
    if ((event.metaKey || event.key === "Meta") && this.hand.held.size) this.hand.release();
    const name = keyName(event);
    if (name === "esc") {
      if (!event.repeat) this.press("hold");
      this.hand.drop();
      if (writing(document.activeElement)) document.activeElement.blur();
      event.preventDefault();
      return;
    }
    const onButton = event.target instanceof HTMLButtonElement;
    if (name === "enter") {
      // a second one at once was meant for the button or field of the first, which may be gone
      if (onButton || writing(event.target)) this.enteredMs = performance.now();
      else if (performance.now() - this.enteredMs < AGAIN_MS) return;
    }
    if (writing(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
    const action = this.actions.get(name);
    if (!action || (onButton && name === "enter")) return;
    if (this.hand.takes(action)) {
      event.preventDefault();
      this.drives.set(event.code, action);
      if (!event.repeat) this.hand.hold(action);
    } else if (!event.repeat) {
      event.preventDefault();
      this.press(action);
    }
  }

  up(event) {
    spare(event);
    // by its place: with Shift, which came or went meanwhile, its name may be another
    const action = this.drives.get(event.code) || this.actions.get(keyName(event));
    this.drives.delete(event.code);
    if (!action || !this.hand.takes(action)) return;
    this.hand.letGo(action);
  }

  show(now) {
    const writes = now.writer === "you";
    const { claim, episode } = now;
    this.episode = claim ? claim.id : episode ? episode.id : "";
    const about = claim ? `of episode ${claim.number}` : episode ? `of episode ${episode.number}` : "";
    for (const button of document.querySelectorAll("#keys [data-what]")) {
      const what = button.dataset.what;
      const watches = !writes && now.writer !== "";
      const idle = what in ONLY_IN && now.banner.mode !== ONLY_IN[what];
      button.disabled = watches || idle || Boolean(now.over);
      if (what === "clear_stop" && button.disabled) this.cease();
      if (VERDICTS.includes(what)) {
        const text = claim && what === "failure" ? `REFUSE ${claim.number}` : about;
        if (button.lastChild.textContent !== text) button.lastChild.textContent = text;
      }
    }
    document.getElementById("sit").classList.toggle("away", writes);
    this.showUndo(now.undo);
  }

  showUndo(undo) {
    const button = document.getElementById("undo");
    button.classList.toggle("away", !undo);
    if (!undo) return;
    button.querySelector("small").textContent = `${undo.number}: ${undo.verdict}, ${Math.ceil(undo.left_s)} s`;
  }
}
