// The coloured band that says who was in control, with what happened above it: labels, the end, what is trimmed away.
import { spansOf } from "./track.js";

const WORDS = { policy: "policy", human: "human", idle: "human, still", hold: "hold" };
const LETTER_PX = 7, ROOM_PX = 8;  // a span without room for its word is told by its colour, its pattern and its tooltip
const SIGNS = { success: "✔", failure: "✖", discard: "⊘" };

// a row of its own: a stage may begin where the words about the end stand
function stageRow(stages, shareOf) {
  const above = document.createElement("div");
  above.className = "marks";
  above.append(...stages.map((each) => stageMark(each, shareOf)));
  return above;
}

function marks(track, shareOf, labels) {
  const above = document.createElement("div");
  above.className = "marks";
  const mark = document.createElement("span");
  const share = shareOf(track.episode.t.length - 1);
  mark.textContent = ending(track.episode, labels);
  mark.className = share > 0.5 ? "left" : "right";
  mark.style.left = percent(share);
  above.append(mark);
  return above;
}

// where a stage begins; one that is only proposed has a dashed edge and a question mark
function stageMark({ stage, frame, name, proposed }, shareOf) {
  const mark = document.createElement("span");
  mark.className = proposed ? "stage proposed" : "stage";
  mark.textContent = `${stageName(stage, name)}${proposed ? "?" : ""}`;
  mark.title = `stage ${stage} ${proposed ? "may begin, a model says," : "begins"} at frame ${frame}`;
  mark.style.left = percent(shareOf(frame));
  return mark;
}

export const stageName = (stage, name) => name || `stage ${stage}`;

const percent = (share) => `${(100 * share).toFixed(3)}%`;

function place(element, from, to) {
  element.style.left = percent(from);
  element.style.width = percent(to - from);
}

// how it ended and what was said of that: labels are of the last frame, whenever they were given
function ending(episode, labels) {
  const said = labels.map((label) => `${SIGNS[label.verdict]} ${label.source === "truth" ? "simulator" : label.source}`);
  return [`⚑ ${episode.end}`, ...said].join(" · ");
}

// `name`: whose band it is, where there are several; `labels`: null where a band above has told them
export function makeBand(track, source, name, shareOf, kept, labels, stages) {
  const root = document.createElement("div");
  root.className = "band";
  root.setAttribute("role", "img");
  if (labels) root.append(...(stages.length ? [stageRow(stages, shareOf)] : []), marks(track, shareOf, labels));
  const strip = document.createElement("div");
  strip.className = "strip";
  const spans = spansOf(source);
  const width = document.getElementById("bands").clientWidth;
  for (const [who, first, behind] of spans) {
    const part = document.createElement("i");
    part.className = `who ${who}`;
    const fits = (shareOf(behind) - shareOf(first)) * width >= LETTER_PX * WORDS[who].length + ROOM_PX;
    part.textContent = fits ? WORDS[who] : "";  // whole, or not: "human, still" cut short would say "human"
    part.title = `${WORDS[who]}, frames ${first} to ${behind}`;
    place(part, shareOf(first), shareOf(behind));
    strip.append(part);
  }
  for (const step of track.episode.clipped) {
    const tick = document.createElement("b");
    place(tick, shareOf(step), shareOf(step + 1));
    strip.append(tick);
  }
  if (kept) {
    for (const [from, to] of [[0, shareOf(kept[0])], [shareOf(kept[1]), shareOf(track.episode.t.length - 1)]]) {
      const cut = document.createElement("u");
      place(cut, from, to);
      strip.append(cut);
    }
  }
  root.setAttribute("aria-label", `${name ? `${name}: ` : ""}in control: ${spans.map(([who, first, behind]) =>
    `${WORDS[who]} ${((behind - first) * track.seconds / source.length).toFixed(1)} s`).join(", ")}`);
  if (name) {
    const words = document.createElement("span");
    words.className = "side";
    words.textContent = name;
    root.append(words);
  }
  root.append(strip);
  return root;
}
