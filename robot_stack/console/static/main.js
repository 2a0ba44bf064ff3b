// Puts the parts together: what the server says goes to the screen, what an operator does goes to the server.
import { set, showBanner, showLost, showSilent } from "./banner.js";
import { guardPlaces } from "./buttons.js";
import { layCameras, showCameras, showImage } from "./cameras.js";
import { layCurve, showCurve, showTime } from "./curve.js";
import { showEpisodes } from "./episodes.js";
import { allText, copy, showFigures, showLog } from "./figures.js";
import { Halt } from "./halt.js";
import { Hand } from "./hand.js";
import { Keys } from "./keys.js";
import { showLearning } from "./learning.js";
import { Link, tokenIn } from "./link.js";
import { Notices } from "./notices.js";
import { Playback } from "./playback.js";
import { keepReport } from "./report.js";
import { soundButton } from "./tone.js";

let welcome = null;
let away = () => {};
// served to this machine alone, so it is offered to a browser here alone; until it is served, with the command
function showScene(address, command) {
  const [link, how] = [document.getElementById("scene"), document.getElementById("scene-how")];
  const here = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
  link.hidden = !address || !here;
  how.hidden = Boolean(address) || !command || !here;
  if (!link.hidden && link.href !== address) link.href = address;
  if (!how.hidden) how.lastElementChild.textContent = command;
}

function share(value) { return value === null || value === undefined ? "–" : value.toFixed(2); }

// says what is wrong with the connection, and goes on to say it while the seconds pass
function isAway(say) {
  hand.release();
  away = say;
  away();
}

const link = new Link({
  welcome(message) {
    welcome = message;
    document.getElementById("gate").hidden = true;
    layCameras(message.cameras, (cameras) => link.send({ k: "view", cameras }));
    layCurve(message.limit_s);
    keys.lay(message);
    hand.lay(message);
  },
  state(parts) {
    away = () => {};
    if (parts.now) {
      const now = parts.now;
      hand.writes = now.writer === "you";
      showBanner(now, welcome);
      halt.state(now.safety, Boolean(now.over) && !now.safety);  // what holds the arms ends last
      keys.show(now);
      if (!now.over) showCameras(now.cameras);
      showFigures(now.figures);
      keepReport(now.over, link.token);
      showScene(now.over ? "" : now.scene, now.over ? "" : welcome.scene);
      set("phi", share(now.score && now.score.progress));
      set("success", share(now.score && now.score.success));
      set("stage", now.stage);
      showTime(now.episode ? now.episode.s : 0);
    }
    if (parts.curve) showCurve(parts.curve);
    if (parts.episodes) {
      showEpisodes(parts.episodes, link, welcome.note_chars);
      playback.show(parts.episodes);
    }
    if (parts.learning) showLearning(parts.learning);
    if (parts.log) showLog(parts.log);
  },
  image: showImage,
  notice: (text) => notices.later(text),
  unsent: (text) => notices.say(text),
  taken(n) { halt.taken(n); },
  silent() { isAway(() => showSilent(link.awayS)); },
  lost(bye, final) {
    document.getElementById("gate").hidden = !(bye && bye.kind === "token");
    if (bye && bye.kind === "token") document.querySelector("#gate input").focus();
    isAway(() => showLost(bye, link.awayS, final));
  },
});
const notices = new Notices(document.getElementById("notice"), () => halt.doubts);
const halt = new Halt(link, () => notices.settle());
const hand = new Hand(link, (what) => keys.press(what), (text) => notices.later(text));
const keys = new Keys(link, hand, halt);
const playback = new Playback(link, (text) => notices.later(text));

document.getElementById("gate").addEventListener("submit", (event) => {
  event.preventDefault();
  const field = document.querySelector("#gate input");
  link.enter(tokenIn(field.value));
  field.value = "";
});
guardPlaces();
soundButton(document.getElementById("sound"));
document.getElementById("copy").addEventListener("click", () => {
  copy(allText()).then(() => notices.say("copied"), () => notices.say("the browser does not let a page copy; mark it by hand"));
});
setInterval(() => away(), 500);
link.open();
