// Puts the parts together: the list, the player, and what is done with an episode.
import { TokenNeeded, episodePath, get, useToken } from "./api.js";
import { guardPlaces, onPress } from "./buttons.js";
import { Desk, stagesOf } from "./desk.js";
import { Comparison } from "./further.js";
import { Library, KINDS } from "./library.js";
import { Player } from "./player.js";

const at = (id) => document.getElementById(id);
const ASK_MS = 1500, NOTICE_MS = 8000;
const build = document.querySelector("meta[name=build]").content;
let known = "";
let noticeTimer = 0;
let turn = 0;
let open = [];  // episodes that are shown: one, or two to compare

function notice(text) {
  at("notice").textContent = text;
  at("notice").hidden = false;
  clearTimeout(noticeTimer);
  noticeTimer = setTimeout(() => { at("notice").hidden = true; }, NOTICE_MS);
}

const library = new Library((id) => choose([id]), (id) => {
  if (!open.length || open[0].id === id) choose([id]);
  else choose([open[0].id, id]);
});
const player = new Player(notice);
player.labels = (id) => library.find(id)?.labels || [];
player.stages = (id) => stagesOf(library.find(id));
const comparison = new Comparison(notice);
const desk = new Desk(player, notice, () => refresh());

function counts(said) {
  const kinds = Object.entries(KINDS).map(([kind, name]) => [said.episodes.filter((row) => row.kind === kind).length, name]);
  const success = said.episodes.filter((row) => row.outcome === "success").length;
  return [`${said.episodes.length} ${said.episodes.length === 1 ? "episode" : "episodes"}: ${kinds.filter(([count]) => count).map(([count, name]) => `${count} ${name}`).join(", ") || "none yet"}`,
    `${success} success`, ...(said.running.length ? [`${said.running.length} running`] : []),
    ...(Object.keys(said.broken).length ? [`${Object.keys(said.broken).length} quarantined`] : [])].join(" · ");
}

function show(said) {
  if (said.version.split(".")[0] !== build) { notice("this page is of another version than the server; reload it"); return; }
  known = said.version;
  at("gate").hidden = true;
  at("name").textContent = said.name;
  at("task").textContent = said.task === said.text ? said.task : `${said.task}: ${said.text}`;
  at("counts").textContent = counts(said);
  document.title = `${said.name} · robot-stack`;
  desk.lay(said.keys, said.stages, said.remedies);
  const told = () => JSON.stringify(open.map(({ id }) => [player.labels(id), player.stages(id)]));
  const before = told();
  library.show(said);
  desk.waiting(said);
  if (open.length) desk.show(open[0], library.find(open[0].id));
  if (told() !== before) player.lay();
}

// `asked`: a person waits for it
async function refresh(asked = false) {
  try {
    const said = await get(`/api/list?known=${encodeURIComponent(known)}`);
    if (said) show(said);
    return true;
  } catch (error) {
    if (error instanceof TokenNeeded) at("gate").hidden = false;
    if (!(error instanceof TokenNeeded) || asked) notice(error.message);
    return false;
  }
}

async function choose(ids) {
  turn += 1;
  const mine = turn;
  library.mark(ids[0] || "", ids[1] || "");
  desk.fetching = true;
  try {
    const episodes = await Promise.all(ids.map((id) => get(episodePath(id))));
    if (mine !== turn) return;
    open = episodes;
    player.load(episodes, player.tracks[0]?.scores?.version);
    desk.show(episodes[0], library.find(episodes[0].id));
    const address = new URLSearchParams(ids.length > 1 ? { episode: ids[0], with: ids[1] } : { episode: ids[0] });
    history.replaceState(null, "", `?${address}`);
    if (innerWidth < 900) at("player").scrollIntoView({ block: "start" });
  } catch (error) {
    if (mine !== turn) return;
    library.mark(open[0]?.id || "", open[1]?.id || "");
    notice(error.message);
  } finally {
    if (mine === turn) desk.fetching = false;
  }
}

const KEYS = {
  " ": () => player.toggle(),
  ArrowLeft: (event) => (event.shiftKey ? player.jump(-1) : player.step(-1)),
  ArrowRight: (event) => (event.shiftKey ? player.jump(1) : player.step(1)),
  ArrowUp: () => library.next(-1),
  ArrowDown: () => library.next(1),
  Home: () => player.seek(0),
  End: () => player.seek(player.end),
  "-": () => player.faster(-1),
  "+": () => player.faster(1),
  "=": () => player.faster(1),
  "[": () => desk.cut(0),
  "]": () => desk.cut(1),
  u: () => desk.undo(),
};

function pressed(event) {
  if (comparison.open) { comparison.press(event); return; }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const { target } = event;
  if (target.closest("select, textarea, input:not([type=range], [type=checkbox])")) return;
  if (event.key === " " && target.closest("button, summary, input[type=checkbox]")) return;  // it presses that
  const said = Object.entries(desk.keys || {}).find(([, key]) => key === event.key.toLowerCase());
  const act = said ? () => !event.repeat && desk.press(said[0]) : KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!act) return;
  event.preventDefault();
  act(event);
}

guardPlaces();
addEventListener("keydown", pressed);
onPress(at("ask"), () => { player.stop(); comparison.start(); });
onPress(at("single"), () => choose([open[0].id]));
at("gate").addEventListener("submit", (event) => {
  event.preventDefault();
  useToken(at("token").value);
  at("token").value = "";
  start(true);
});

async function start(asked) {
  if (!await refresh(asked)) return;
  const address = new URLSearchParams(location.search);
  const ids = [address.get("episode"), address.get("with")].filter(Boolean);
  if (ids.length) choose(ids);
}

setInterval(() => { if (!document.hidden && at("gate").hidden) refresh(); }, ASK_MS);
start();
