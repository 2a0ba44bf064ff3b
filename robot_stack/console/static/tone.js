// A tone at each change of state. Browsers allow none before a press, do not take every kind of press for one, and may
// take the sound away again: each press asks for it where there is none.
import { onPress } from "./buttons.js";

const NOTES = { policy: [440], human: [523, 659], hold: [294, 220], asks: [659, 880, 659], stop: [196, 196, 196], ready: [587], lost: [220, 165], failed: [220, 165] };
let context = null;
let on = localStorage.getItem("sound") !== "off";

const sounds = () => Boolean(context) && context.state === "running";

export function soundButton(button) {
  let asked = false;  // the button said, as this press began, that it is to be pressed for sound
  const show = () => {
    button.setAttribute("aria-pressed", String(on));
    button.textContent = !on || sounds() ? "tones" : "tones (none yet: press here)";
  };
  const wake = () => {
    if (sounds()) return;
    context = context || new AudioContext();
    context.onstatechange = show;
    context.resume().catch(() => {});  // the next press asks again
  };
  for (const kind of ["pointerdown", "keydown"]) addEventListener(kind, () => { asked = on && !sounds(); }, true);
  for (const kind of ["pointerup", "click", "keydown"]) addEventListener(kind, wake);
  onPress(button, () => {
    if (asked) return;
    on = !on;
    localStorage.setItem("sound", on ? "on" : "off");
    show();
  });
  show();
}

export function tone(mode) {
  const notes = NOTES[mode];
  if (!on || !sounds() || !notes) return;
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
