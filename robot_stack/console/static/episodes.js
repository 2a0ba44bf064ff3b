// The newest episodes: how they went, at a glance and one by one, with verdicts and notes.
import { KINDS } from "./banner.js";
import { onPress } from "./buttons.js";
import { OUTCOMES, svg } from "./shapes.js";

const VERDICTS = [["success", "S"], ["failure", "F"], ["discard", "D"]];
const SHOWN = 50;
const REST_MS = 3000;
const rows = new Map();
const pictures = new Map();
let usedMs = -REST_MS;
let later = 0;

const clock = (seconds) => (seconds ? new Date(1000 * seconds).toTimeString().slice(0, 5) : "");

export function outcomeOf(episode) {
  if (episode.open) return ["open", "running"];
  if (episode.verdict) return [episode.verdict, episode.verdict];
  if (episode.end === "success" || episode.end === "failure") return [episode.end, episode.end];
  return ["none", episode.end || "ended"];
}

async function picture(image, id, token) {
  if (!pictures.has(id)) {
    const answer = await fetch(`/picture/${encodeURIComponent(id)}`, { headers: { Authorization: `Bearer ${token}` } });
    if (!answer.ok) return;
    pictures.set(id, URL.createObjectURL(await answer.blob()));
  }
  image.src = pictures.get(id);
}

function makeRow(episode, link, chars) {
  const item = document.createElement("li");
  item.dataset.id = episode.id;
  const number = document.createElement("span");
  number.className = "no";
  number.textContent = episode.number;
  const frame = document.createElement("button");
  frame.type = "button";
  frame.className = "picture none";
  frame.dataset.play = episode.id;
  frame.title = `play episode ${episode.number}`;
  frame.setAttribute("aria-label", frame.title);
  const words = document.createElement("span");
  const say = document.createElement("span");
  say.className = "say";
  for (const [verdict, letter] of VERDICTS) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = letter;
    button.title = `episode ${episode.number} was: ${verdict}`;
    button.setAttribute("aria-label", button.title);
    onPress(button, () => link.act({ k: "say", episode: episode.id, verdict }));
    say.append(button);
  }
  const note = document.createElement("input");
  note.placeholder = "note";
  note.maxLength = chars;
  note.setAttribute("aria-label", `note on episode ${episode.number}`);
  note.addEventListener("change", () => link.write(episode.id, note.value));
  item.append(number, frame, words, say, note);
  const row = { item, frame, words, say, note, told: "", kept: "" };
  rows.set(episode.id, row);
  return row;
}

function showRow(row, episode, token) {
  const told = JSON.stringify(episode);
  if (told === row.told) return;
  row.told = told;
  const [shape, word] = outcomeOf(episode);
  const said = document.createElement("span");
  said.className = "said";
  said.append(svg(OUTCOMES[shape]), word);
  const details = document.createElement("small");
  const by = { operator: "by an operator", model: "by the model" }[episode.by];
  const human = episode.human > 0 && episode.kind !== "demo"
    ? `human ${Math.round(100 * episode.human)} %, ${episode.interventions}×` : "";
  const parts = [KINDS[episode.kind] || episode.kind, clock(episode.at), episode.open ? "" : `${episode.s.toFixed(1)} s`, by, human, episode.state];
  details.textContent = parts.filter(Boolean).join(" · ");
  row.words.replaceChildren(said, details);
  for (const button of [...row.say.children, row.frame]) button.disabled = episode.open;
  if (document.activeElement !== row.note && episode.note !== row.kept) {  // words that were refused stay in the field
    row.kept = row.note.value = episode.note;
  }
  if (episode.pictures && !row.frame.firstChild) {
    const image = document.createElement("img");
    image.alt = `first and last look at episode ${episode.number}`;
    row.frame.replaceChildren(image);
    row.frame.classList.remove("none");
    picture(image, episode.id, token);
  }
}

function bar(x, y, width, height, fill, hollow) {
  const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [name, value] of Object.entries({ x, y, width, height, "stroke-width": 1.5 })) rect.setAttribute(name, value);
  [rect.style.fill, rect.style.stroke] = hollow ? ["none", fill] : [fill, "none"];
  return rect;
}

// three strips, oldest left: success filled and failure hollow; interventions; time
function showTrend(episodes) {
  const trend = document.getElementById("trend");
  const ended = episodes.filter((each) => !each.open && each.kind !== "demo").slice(0, SHOWN).reverse();
  const step = 1000 / SHOWN;
  const most = Math.max(1, ...ended.map((each) => each.interventions));
  const longest = Math.max(1, ...ended.map((each) => each.s));
  trend.setAttribute("viewBox", "0 0 1000 96");
  const marks = [];
  ended.forEach((each, index) => {
    const x = index * step + 2, width = step - 4;
    marks.push(bar(x, 2, width, 24, each.success ? "var(--good)" : "var(--bad)", !each.success));
    if (each.interventions) marks.push(bar(x, 60 - 28 * each.interventions / most, width, 28 * each.interventions / most, "var(--orange)"));
    marks.push(bar(x, 94 - 28 * each.s / longest, width, 28 * each.s / longest, "var(--soft)"));
  });
  trend.replaceChildren(...marks);
  const good = ended.filter((each) => each.success).length;
  const helped = ended.reduce((sum, each) => sum + each.interventions, 0);
  const time = ended.reduce((sum, each) => sum + each.s, 0);
  const words = ended.length
    ? `last ${ended.length}: ${good} succeeded (filled), ${(helped / ended.length).toFixed(1)} interventions and ${(time / ended.length).toFixed(1)} s each`
    : "none of online training yet";
  trend.setAttribute("aria-label", words);
  document.getElementById("sums").textContent = words;
}

// Nothing moves under a hand that is at the list: what is new is put in once it has rested.
function layLater(list, episodes, link, chars) {
  const restMs = usedMs + REST_MS - performance.now();
  const moves = episodes.some((episode) => !rows.has(episode.id));
  clearTimeout(later);
  if (restMs <= 0 || !moves || !list.children.length) return false;
  later = setTimeout(() => showEpisodes(episodes, link, chars), restMs);
  for (const episode of episodes) if (rows.has(episode.id)) showRow(rows.get(episode.id), episode, link.token);
  return true;
}

for (const kind of ["pointermove", "pointerdown", "keydown", "wheel"]) {
  document.getElementById("list").addEventListener(kind, () => { usedMs = performance.now(); }, { passive: true });
}

export function showEpisodes(episodes, link, chars) {
  const list = document.getElementById("list");
  if (layLater(list, episodes, link, chars)) return;
  const items = episodes.map((episode) => {
    const row = rows.get(episode.id) || makeRow(episode, link, chars);
    showRow(row, episode, link.token);
    return row.item;
  });
  const known = new Set(episodes.map((episode) => episode.id));
  for (const id of rows.keys()) {
    if (known.has(id)) continue;
    URL.revokeObjectURL(pictures.get(id));
    pictures.delete(id);
    rows.delete(id);
  }
  items.forEach((item, index) => {
    if (list.children[index] !== item) list.insertBefore(item, list.children[index] || null);
  });
  while (list.children.length > items.length) list.lastChild.remove();
  showTrend(episodes);
}
