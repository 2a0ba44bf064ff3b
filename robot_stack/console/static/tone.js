// A tone at each change of state. Browsers allow none before the first key or click.
import { onPress } from "./buttons.js";

const NOTES = { policy: [440], human: [523, 659], hold: [294, 220], asks: [659, 880, 659], stop: [196, 196, 196], ready: [587], lost: [220, 165], failed: [220, 165] };
let context = null;
let on = localStorage.getItem("sound") !== "off";

export function soundButton(button) {
  const show = () => button.setAttribute("aria-pressed", String(on));
  onPress(button, () => {
    on = !on;
    localStorage.setItem("sound", on ? "on" : "off");
    show();
  });
  for (const kind of ["keydown", "pointerdown"]) {
    addEventListener(kind, () => { context = context || new AudioContext(); }, { once: true });
  }
  show();
}

export function tone(mode) {
  const notes = NOTES[mode];
  if (!on || !context || !notes) return;
  notes.forEach((hertz, index) => {
    const start = context.currentTime + 0.13 * index;
    const voice = context.createOscillator();
    const loudness = context.createGain();
    voice.frequency.value = hertz;
    loudness.gain.setValueAtTime(0.12, start);
    loudness.gain.exponentialRampToValueAtTime(0.001, start + 0.12);
    voice.connect(loudness).connect(context.destination);
    voice.start(start);
    voice.stop(start + 0.13);
  });
}
