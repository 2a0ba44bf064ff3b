// Puts the parts together: what the server says goes to the screen, what an operator does goes to the server.
import { set, showBanner, showLost } from "./banner.js";
import { layCameras, showCameras, showImage } from "./cameras.js";
import { layCurve, showCurve, showTime } from "./curve.js";
import { showEpisodes } from "./episodes.js";
import { allText, copy, showFigures, showLog } from "./figures.js";
import { Hand } from "./hand.js";
import { Keys, showKeys, showUndo } from "./keys.js";
import { Link } from "./link.js";
import { soundButton } from "./tone.js";

const NOTICE_MS = 8000;
let welcome = null;
let lost = null;
let noticeTimer = 0;

function notice(text) {
  const element = document.getElementById("notice");
  element.textContent = text;
  element.hidden = false;
  clearTimeout(noticeTimer);
  noticeTimer = setTimeout(() => { element.hidden = true; }, NOTICE_MS);
}

function share(value) { return value === null || value === undefined ? "–" : value.toFixed(2); }

const link = new Link({
  welcome(message) {
    welcome = message;
    lost = null;
    document.title = `${message.run} · robot-stack`;
    layCameras(message.cameras);
    layCurve(message.limit_s);
    keys.lay(message);
    hand.lay(message);
  },
  state(parts) {
    if (parts.now) {
      const now = parts.now;
      hand.writes = now.writer === link.name;
      showBanner(now, welcome, link.name);
      showKeys(now, link.name);
      showUndo(now, link);
      showCameras(now.cameras);
      showFigures(now.figures);
      set("phi", share(now.score && now.score.progress));
      set("success", share(now.score && now.score.success));
    }
    if (parts.now) showTime(parts.now.episode ? parts.now.episode.s : 0);
    if (parts.curve) showCurve(parts.curve);
    if (parts.episodes) showEpisodes(parts.episodes, link, welcome.note_chars);
    if (parts.log) showLog(parts.log);
  },
  image: showImage,
  notice,
  lost(why, final) {
    hand.release();
    lost = { why, final };
    showLost(why, (performance.now() - link.since) / 1000, final);
  },
});
const hand = new Hand(link);
const keys = new Keys(link, hand);

soundButton(document.getElementById("sound"));
document.getElementById("copy").addEventListener("click", () => {
  copy(allText()).then(() => notice("copied"), () => notice("the browser does not let a page copy; mark it by hand"));
});
setInterval(() => { if (lost) showLost(lost.why, (performance.now() - link.since) / 1000, lost.final); }, 500);
link.open();
