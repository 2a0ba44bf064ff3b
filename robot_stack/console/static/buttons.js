// How the page's buttons are pressed: once for a double click, or kept pressed for what must not happen by mistake.
const AGAIN_MS = 600;

// A second click at once after the first was meant for what the button said before, so it does nothing.
export class Once {
  constructor() { this.pressedMs = new Map(); }

  allows(what) {
    const now = performance.now();
    const free = now - (this.pressedMs.get(what) ?? -AGAIN_MS) >= AGAIN_MS;
    if (free) this.pressedMs.set(what, now);
    return free;
  }
}

export function onPress(button, act) {
  const once = new Once();
  button.addEventListener("click", () => { if (once.allows("")) act(); });
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
