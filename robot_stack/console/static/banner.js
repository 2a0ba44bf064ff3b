// Who is in control and why, what to do now, and the few facts beside it.
import { SHAPES } from "./shapes.js";
import { tone } from "./tone.js";

const at = (id) => document.getElementById(id);
let shown = "";

export const KINDS = { demo: "demonstration", online: "online training", eval: "evaluation" };

export function set(id, text) {
  const element = at(id);
  if (element.textContent !== text) element.textContent = text;  // unchanged text is not read out again
}

export function mode(name) {
  if (name === shown) return;
  shown = name;
  document.body.dataset.mode = name;
  at("shape").innerHTML = SHAPES[name] || SHAPES.silent;
  tone(name);
}

export function showBanner(now, welcome, name) {
  mode(now.banner.mode);
  set("word", now.banner.word);
  set("why", now.writer === name ? now.banner.why.replace("A page drives", "You drive") : now.banner.why);
  set("do", now.banner.now);
  const episode = now.episode;
  set("episode", episode
    ? `${welcome.run} · ${KINDS[episode.kind] || episode.kind}, episode ${episode.number} · ${episode.s.toFixed(1)} s / ${welcome.limit_s.toFixed(0)} s`
    : `${welcome.run} · no episode`);
  set("estop", `e-stop: ${now.estop.text}`);
  at("estop").className = now.estop.on ? "on" : "";
  const others = now.pages > 1 ? `, ${now.pages} pages open` : "";
  set("seat", now.writer === name ? `you are at the desk${others}` : `you watch${others}`);
}

export function showLost(why, seconds, final) {
  mode("lost");
  set("seat", "");
  set("word", final ? "THIS PAGE IS CLOSED" : "CONNECTION LOST");
  set("why", why || `The server has been away for ${seconds.toFixed(0)} s. What is shown below is old.`);
  set("do", final ? "Reload the page to go on here."
    : "Look at the robot, not at the page. It is tried again by itself; if a hand here was driving, the arm holds.");
}
