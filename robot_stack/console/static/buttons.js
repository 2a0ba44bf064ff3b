// How the page's buttons are pressed: once for a double click, or kept pressed for what must not happen by mistake.
export const AGAIN_MS = 600;
const NEAR_PX = 40;  // of two taps of a thumb
const PRESSED = "button, a, label, input, summary, .pad";

// A second click at once after the first was meant for what the button said before, so it does nothing.
export class Once {
  constructor() { this.pressedMs = new Map(); }

  allows(what) {
    const now = performance.now();
    const free = now - (this.pressedMs.get(what) ?? -AGAIN_MS) >= AGAIN_MS;
    if (free) this.took(what);
    return free;
  }

  // it counts as pressed just now
  took(what) { this.pressedMs.set(what, performance.now()); }

  // a press that was refused is free to be made again
  refused(what) { this.pressedMs.delete(what); }
}

export function onPress(button, act) {
  const once = new Once();
  button.addEventListener("click", () => { if (once.allows("")) act(); });
}

// A second press at once after the first was meant for what was there then. Where that has given way to something else,
// it presses nothing. HOLD and STOP are pressed whatever was there before.
export function guardPlaces() {
  let last = { ms: -AGAIN_MS, x: 0, y: 0, on: null };
  let stray = false;
  const stands = () => last.on === document.elementFromPoint(last.x, last.y)?.closest(PRESSED);
  addEventListener("pointerdown", (event) => {
    const now = performance.now();
    const on = event.target.closest(PRESSED);
    const again = now - last.ms < AGAIN_MS && Math.hypot(event.clientX - last.x, event.clientY - last.y) <= NEAR_PX;
    stray = Boolean(again && last.on && on !== last.on && !stands() && !on?.closest("#halt"));
    last = { ms: now, x: event.clientX, y: event.clientY, on: stray ? last.on : on };
    if (stray) event.stopImmediatePropagation();
  }, true);
  for (const kind of ["mousedown", "click"]) {
    addEventListener(kind, (event) => {
      if (!stray || !event.detail) return;  // Enter on a button is a click of no press
      event.preventDefault();
      event.stopImmediatePropagation();
    }, true);
  }
}

// `act` is done once the button, or Enter on it, has been kept down for so long; let go of earlier it does nothing.
export function onKept(button, keptMs, act) {
  let timer = 0;
  const begin = () => {
    if (button.disabled || timer) return;
    button.classList.add("kept");
    timer = setTimeout(() => { cease(); act(); }, keptMs);
  };
  const cease = () => {
    clearTimeout(timer);
    timer = 0;
    button.classList.remove("kept");
  };
  button.style.setProperty("--kept", `${keptMs}ms`);
  button.addEventListener("pointerdown", (event) => { if (event.button === 0) begin(); });
  for (const kind of ["pointerup", "pointerleave", "pointercancel", "blur"]) button.addEventListener(kind, cease);
  button.addEventListener("keydown", (event) => { if (event.key === "Enter" && !event.repeat) begin(); });
  button.addEventListener("keyup", (event) => { if (event.key === "Enter") cease(); });
  button.addEventListener("contextmenu", (event) => event.preventDefault());  // a long press of a thumb opens none
  return cease;
}
