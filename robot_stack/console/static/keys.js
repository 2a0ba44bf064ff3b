// Buttons and keys, from the one key table that the server sends. Esc is hold, always, and nothing else.
const NAMES = { " ": "space", Escape: "esc", ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right" };
const BUTTONS = ["success", "failure", "discard", "hold", "reset_done", "arm", "stop", "clear_stop"];
const WORDS = {
  success: "success", failure: "failure", discard: "discard", hold: "HOLD", reset_done: "reset done",
  arm: "arm / resume", stop: "STOP", clear_stop: "clear the stop", sit: "take the desk",
};

// The name that the key table has for a key: by what is printed on it, on other alphabets by its place.
export function keyName(event) {
  if (NAMES[event.key]) return NAMES[event.key];
  const latin = /^[\x21-\x7e]$/.test(event.key);
  if (!latin && /^Key[A-Z]$/.test(event.code)) return event.code[3].toLowerCase();
  return event.key.toLowerCase();
}

const writing = (element) => element && /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName);

export class Keys {
  constructor(link, hand) {
    this.link = link;
    this.hand = hand;
    this.actions = new Map();
    addEventListener("keydown", (event) => this.down(event));
    addEventListener("keyup", (event) => this.up(event));
  }

  lay(welcome) {
    this.actions = new Map(Object.entries(welcome.keys).filter(([, key]) => key).map(([action, key]) => [key, action]));
    const room = document.getElementById("verdicts");
    room.replaceChildren();
    for (const what of BUTTONS) {
      const allowed = welcome.rights.enable || !["arm", "clear_stop"].includes(what);
      if (!allowed) continue;
      if (what === "hold") {
        const gap = document.createElement("span");
        gap.className = "gap";
        room.append(gap);
      }
      room.append(this.button(what, welcome.keys[what]));
    }
    const sit = this.button("sit", "");
    sit.id = "sit";
    sit.hidden = true;
    room.append(sit);
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
    button.addEventListener("click", () => this.press(what));
    return button;
  }

  press(what) {
    this.link.send(what === "sit" ? { k: "sit" } : { k: "press", what });
  }

  down(event) {
    const name = keyName(event);
    if (name === "esc") {
      if (!event.repeat) this.press("hold");
      this.hand.drop();
      if (writing(document.activeElement)) document.activeElement.blur();
      event.preventDefault();
      return;
    }
    if (writing(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
    const action = this.actions.get(name);
    const onButton = event.target instanceof HTMLButtonElement;
    if (!action || (onButton && name === "enter")) return;
    if (this.hand.takes(action)) {
      event.preventDefault();
      if (!event.repeat) this.hand.hold(action);
    } else if (!event.repeat) {
      event.preventDefault();
      this.press(action);
    }
  }

  up(event) {
    const action = this.actions.get(keyName(event));
    if (!action || !this.hand.takes(action)) return;
    if (!writing(event.target)) event.preventDefault();  // a space that is let go of clicks no button
    this.hand.letGo(action);
  }
}

export function showKeys(now, name) {
  const room = document.getElementById("verdicts");
  const writes = now.writer === name;
  for (const button of room.querySelectorAll("button")) {
    const what = button.dataset.what;
    if (what === "sit") button.hidden = writes;
    else if (what === "clear_stop") button.hidden = now.banner.mode !== "stop";
    else button.disabled = !writes && now.writer !== "" && !["hold", "stop"].includes(what);
  }
  const failure = room.querySelector("[data-what=failure]");
  failure.firstChild.textContent = now.claim ? `REFUSE ${now.claim.number}` : WORDS.failure;
}

export function showUndo(now, link) {
  const room = document.getElementById("undo");
  room.hidden = !now.undo;
  if (!now.undo) return;
  const text = `Episode ${now.undo.number}: ${now.undo.verdict}.`;
  if (!room.firstChild) {
    const button = document.createElement("button");
    button.type = "button";
    button.addEventListener("click", () => link.send({ k: "undo" }));
    room.append(document.createElement("span"), button);
  }
  room.firstChild.textContent = text;
  room.lastChild.textContent = `undo (${Math.ceil(now.undo.left_s)} s)`;
}
