// Who is in control and why, what to do now, and the few facts beside it.
import { SHAPES } from "./shapes.js";
import { tone } from "./tone.js";

const at = (id) => document.getElementById(id);
// a request for help is called out again until somebody has answered it
const CALL_AGAIN_MS = 4000;
let shown = "";
let run = "";  // in the title behind the word, which a tab shows that is behind another
let tonedMs = 0;

export const KINDS = { demo: "demonstration", online: "online training", eval: "evaluation" };

export function set(id, text) {
  const element = at(id);
  if (element.textContent !== text) element.textContent = text;  // unchanged text is not read out again
}

function show(mode, word, why, now) {
  if (mode !== shown || (mode === "asks" && performance.now() - tonedMs > CALL_AGAIN_MS)) {
    shown = mode;
    tonedMs = performance.now();
    document.body.dataset.mode = mode;
    at("shape").innerHTML = SHAPES[mode] || SHAPES.silent;
    tone(mode);
  }
  const title = `${word} · ${run}robot-stack`;
  if (document.title !== title) document.title = title;
  set("word", word);
  set("why", why);
  set("do", now);
}

export function showBanner(now, welcome) {
  const { mode, word, why } = now.banner;
  run = `${welcome.run} · `;
  show(mode, word, now.writer === "you" ? why.replace("A page drives", "You drive") : why, now.banner.now);
  const episode = now.episode;
  set("episode", episode
    ? `${welcome.run} · ${KINDS[episode.kind] || episode.kind}, episode ${episode.number} · ${episode.s.toFixed(1)} s / ${welcome.limit_s.toFixed(0)} s`
    : `${welcome.run} · no episode`);
  set("estop", `e-stop: ${now.estop.text}`);
  at("estop").className = now.estop.on ? "on" : "";
  const others = now.pages > 1 ? `, ${now.pages} pages open` : "";
  set("seat", now.writer === "you" ? `you are the operator${others}` : `you watch${others}`);
}

// the server is connected and says nothing: it stands still, or the network does
export function showSilent(seconds) {
  set("seat", "");
  show("lost", "SERVER SILENT", `The server has said nothing for ${seconds.toFixed(0)} s. What is shown below is old.`,
    "Look at the robot, not at the page. HOLD and STOP may not arrive: use the device, or the emergency stop at the robot.");
}

// the connection is closed; `bye` is what the server said with it, or null
export function showLost(bye, seconds, final) {
  set("seat", "");
  if (bye && bye.banner) show(bye.banner.mode, bye.banner.word, bye.banner.why, bye.banner.now);
  else if (bye && bye.kind === "token") {
    show("lost", "TOKEN NEEDED", `This page's ${bye.text}.`, "Give the token below.");
  } else if (final) {
    show("lost", "THIS PAGE IS CLOSED", bye.text, "Reload the page to go on here.");
  } else {
    show("lost", "CONNECTION LOST", `The server has been away for ${seconds.toFixed(0)} s. What is shown below is old.`,
      "Look at the robot, not at the page. It is tried again by itself; if a hand here was driving, the arm holds.");
  }
}
