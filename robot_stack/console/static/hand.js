// The hand that drives a simulated arm: keys, a gamepad, or the two pads on the screen. Said 25 times a second, and at
// once when something is pressed or let go. The server decides whether anything moves.
import { Once } from "./buttons.js";

const PERIOD_MS = 40;
// a key is all or nothing: with Shift it is this share
const FINE = 0.25;
const AXES = ["x", "y", "z", "rx", "ry", "rz"];
const HELD = ["deadman", "gripper_close", "gripper_open"];
// pressed from every page, however the server is
const HALTS = ["hold", "stop"];
// places of the standard gamepad, by the names of the key table
const PLACES = [
  "BTN_SOUTH", "BTN_EAST", "BTN_WEST", "BTN_NORTH", "BTN_TL", "BTN_TR", "BTN_TL2", "BTN_TR2", "BTN_SELECT", "BTN_START",
  "BTN_THUMBL", "BTN_THUMBR", "", "", "", "", "BTN_MODE",
];
const PADS = [
  { axes: ["y", "x"], signs: [-1, -1], words: ["away", "near", "left", "right"] },
  { axes: ["rz", "z"], signs: [-1, -1], words: ["up", "down", "turn left", "turn right"] },
];

export class Hand {
  constructor(link, press, tell) {
    this.link = link;
    this.press = press;  // labels and the like on a gamepad
    this.tell = tell;
    this.drives = false;
    this.writes = false;
    this.held = new Set();
    this.tapped = new Set();
    this.pads = [];
    this.buttons = new Map();
    this.down = new Set();
    this.unknown = new Set();  // indices of gamepads that are there, in a layout that the browser does not know
    this.gripped = null;  // index of the gamepad whose deadman is held
    this.wasHolding = false;
    this.fine = false;
    for (const kind of ["keydown", "keyup"]) addEventListener(kind, (event) => { this.fine = event.shiftKey; }, true);
    addEventListener("blur", () => this.release());
    document.addEventListener("visibilitychange", () => { if (document.hidden) this.release(); });
    setInterval(() => this.tick(), PERIOD_MS);
  }

  lay(welcome) {
    this.drives = welcome.rights.drive;
    document.getElementById("hand").hidden = !this.drives;
    if (!this.drives) return;
    this.buttons = new Map(Object.entries(welcome.gamepad).map(([action, name]) => [name, action]));
    const key = (action) => (welcome.keys[action] || "").toUpperCase();
    const pairs = [["x+", "away"], ["x-", "near"], ["y+", "left"], ["y-", "right"], ["z+", "up"], ["z-", "down"], ["rz+", "turn left"], ["rz-", "turn right"]];
    document.getElementById("handwords").textContent =
      `hold ${key("deadman")} and steer: ${pairs.map(([axis, word]) => `${key(axis)} ${word}`).join(", ")}; with Shift, a ` +
      "quarter as fast. A gamepad: hold the left shoulder button. A touch screen: the pads. Let go to give the arm back.";
    this.layPads(welcome);
  }

  layPads(welcome) {
    const room = document.getElementById("pads");
    room.replaceChildren();
    this.pads = PADS.map((layout) => this.makePad(room, layout));
    const grips = document.createElement("div");
    grips.id = "grips";
    const { arms, grips: gripped } = welcome.rights;
    const once = new Once();  // twice the next of two arms would be the first again
    const begin = (action) => { if (action !== "next_arm" || once.allows(action)) this.hold(action); };
    const actions = [...(gripped ? ["gripper_close", "gripper_open"] : []), ...(arms.length > 1 ? ["next_arm"] : [])];
    for (const action of actions) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = action.replace("_", " ");
      button.addEventListener("pointerdown", () => begin(action));
      for (const kind of ["pointerup", "pointerleave", "pointercancel"]) {
        button.addEventListener(kind, () => this.letGo(action));
      }
      button.addEventListener("keydown", (event) => { if (event.key === "Enter" && !event.repeat) begin(action); });
      button.addEventListener("keyup", (event) => { if (event.key === "Enter") this.letGo(action); });
      grips.append(button);
    }
    room.append(grips);
  }

  makePad(room, layout) {
    const element = document.createElement("div");
    element.className = "pad";
    element.setAttribute("role", "application");
    element.setAttribute("aria-label", `drive: ${layout.words.join(", ")}`);
    for (const word of layout.words) {
      const mark = document.createElement("b");
      mark.textContent = word;
      element.append(mark);
    }
    const knob = document.createElement("i");
    element.append(knob);
    const pad = { element, knob, layout, pointer: null, at: [0, 0], from: [0, 0] };
    element.addEventListener("pointerdown", (event) => {
      if (pad.pointer !== null) return;
      pad.pointer = event.pointerId;
      pad.from = [event.clientX, event.clientY];  // wherever it is touched is the middle: nothing jumps
      element.setPointerCapture(event.pointerId);
      this.movePad(pad, [0, 0]);
      this.say();
    });
    element.addEventListener("pointermove", (event) => {
      if (event.pointerId !== pad.pointer) return;
      const reach = 0.4 * element.clientWidth;
      const clip = (value) => Math.max(-1, Math.min(1, value / reach));
      this.movePad(pad, [clip(event.clientX - pad.from[0]), clip(event.clientY - pad.from[1])]);
    });
    for (const kind of ["pointerup", "pointercancel", "lostpointercapture"]) {
      element.addEventListener(kind, (event) => {
        if (event.pointerId !== pad.pointer) return;
        pad.pointer = null;
        this.movePad(pad, [0, 0]);
        this.say();
      });
    }
    room.append(element);
    return pad;
  }

  movePad(pad, at) {
    pad.at = at;
    pad.element.classList.toggle("held", pad.pointer !== null);
    const reach = 0.4 * pad.element.clientWidth;
    pad.knob.style.transform = `translate(${at[0] * reach}px, ${at[1] * reach}px)`;
  }

  // whether what the hand says is meant and heard now
  get acts() { return this.writes && this.link.up; }

  takes(action) {
    return this.drives && (HELD.includes(action) || action === "next_arm" || /^(x|y|z|rx|ry|rz)[+-]$/.test(action));
  }

  hold(action) {
    if (this.held.has(action)) return;
    this.held.add(action);
    this.tapped.add(action);
    this.say();
  }

  letGo(action) {
    if (this.held.delete(action)) this.say();
  }

  // everything is let go of
  drop(live = true) {
    this.held.clear();
    for (const pad of this.pads) {
      pad.pointer = null;
      this.movePad(pad, [0, 0]);
    }
    if (this.wasHolding) this.say(live);
  }

  // the keys go elsewhere from here on, or the gamepad is unplugged: a deadman that nobody can see let go of is a lost hand, and the arm holds
  release() {
    this.fine = false;
    this.drop(false);
  }

  // the gamepad that drives, while one does: another one says nothing of its deadman
  gamepad() {
    const pads = navigator.getGamepads ? [...navigator.getGamepads()] : [];
    const connected = pads.filter((pad) => pad && pad.connected);
    const there = connected.filter((pad) => pad.mapping === "standard");
    const unknown = new Set(connected.filter((pad) => pad.mapping !== "standard").map((pad) => pad.index));
    if ([...unknown].some((index) => !this.unknown.has(index))) {
      this.tell("This browser does not know the layout of a gamepad that is connected: none of its buttons counts here.");
    }
    this.unknown = unknown;
    return there.find((pad) => this.gripped === null || pad.index === this.gripped) || null;
  }

  // labels and the like on a gamepad are presses, once for each time that a button goes down
  readGamepad(pad, axes, pressed) {
    const now = new Set();
    pad.buttons.forEach((button, index) => {
      const action = this.buttons.get(PLACES[index] || "");
      if (!action || !button.pressed) return;
      if (action === "deadman") this.gripped = pad.index;
      if (this.takes(action)) pressed.add(action);
      else {
        now.add(action);
        if (!this.down.has(action) && (this.acts || HALTS.includes(action))) this.press(action);
      }
    });
    this.down = now;
    if (!pressed.has("deadman")) return;
    const [left, ahead, turn, up] = pad.axes;
    axes[0] -= ahead; axes[1] -= left; axes[2] -= up; axes[5] -= turn;
  }

  read() {
    const axes = [0, 0, 0, 0, 0, 0];
    const pressed = new Set([...this.held].filter((action) => HELD.includes(action) || action === "next_arm"));
    for (const action of this.held) {
      const axis = AXES.indexOf(action.slice(0, -1));
      if (axis >= 0) axes[axis] += (action.endsWith("+") ? 1 : -1) * (this.fine ? FINE : 1);
    }
    for (const pad of this.pads) {
      if (pad.pointer === null) continue;
      pressed.add("deadman");
      pad.layout.axes.forEach((axis, index) => { axes[AXES.indexOf(axis)] += pad.layout.signs[index] * pad.at[index]; });
    }
    const gamepad = this.gamepad();
    const lost = this.gripped !== null && !gamepad;
    this.gripped = null;
    if (gamepad) this.readGamepad(gamepad, axes, pressed);
    return { axes: axes.map((value) => Math.max(-1, Math.min(1, value || 0))), pressed, lost };
  }

  tick() {
    if (!document.hidden) this.say();
  }

  say(live = true) {
    const tapped = [...this.tapped];
    this.tapped.clear();  // also where nobody takes it: it is not meant for later
    if (!this.drives) return;
    const { axes, pressed, lost } = this.read();  // of a gamepad, HOLD and STOP count always
    if (!this.acts) return;
    if (lost) { this.release(); return; }
    for (const action of tapped) {
      if (HELD.includes(action) || action === "next_arm") pressed.add(action);  // a short press is not lost
    }
    this.wasHolding = live && pressed.has("deadman");
    this.link.send({ k: "move", t_ms: performance.now(), axes, pressed: [...pressed], live });
  }
}
