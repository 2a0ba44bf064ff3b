// What the policy sees, pixel for pixel, and beside it which part of the camera's picture that is.
import { onPress } from "./buttons.js";

const tiles = [];
const WHOLE = 64;  // added to a camera's place in the list where an image is whole
const WHOLE_MS = 1000;  // a whole picture that is older gives way to the policy's: nothing old is shown as if it were new
const whole = new Set();  // names of cameras that are shown whole

function cropSketch(layout) {
  const [width, height] = layout.captured;
  const [left, top, keptWidth, keptHeight] = layout.kept;
  const sketch = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  sketch.setAttribute("viewBox", `-4 -4 ${width + 8} ${height + 8}`);
  sketch.setAttribute("aria-hidden", "true");
  for (const [x, y, w, h, fill, stroke] of [
    [0, 0, width, height, "var(--line)", "var(--soft)"],
    [left, top, keptWidth, keptHeight, "var(--grey)", "var(--ink)"],
  ]) {
    const box = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    for (const [name, value] of Object.entries({ x, y, width: w, height: h, "stroke-width": width / 40 })) {
      box.setAttribute(name, value);
    }
    [box.style.fill, box.style.stroke] = [fill, stroke];
    sketch.append(box);
  }
  return sketch;
}

function cropWords(layout) {
  const [width, height] = layout.captured;
  const [left, top, keptWidth, keptHeight] = layout.kept;
  const [policyWidth, policyHeight] = layout.policy;
  const whole = keptWidth === width && keptHeight === height;
  const part = whole ? "all of it" : `${keptWidth}×${keptHeight} at ${left}, ${top}`;
  return `policy sees ${policyWidth}×${policyHeight}: ${part} of ${width}×${height}`;
}

// `look` is told which cameras are to be shown whole
export function layCameras(layouts, look) {
  const room = document.getElementById("cameras");
  room.replaceChildren();
  tiles.length = 0;
  for (const layout of layouts) {
    const tile = document.createElement("figure");
    tile.className = "camera";
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = layout.policy;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `camera ${layout.name}, as the policy sees it`);
    const caption = document.createElement("figcaption");
    const words = document.createElement("div");
    const head = document.createElement("div");
    const crop = document.createElement("small");
    crop.textContent = cropWords(layout);
    words.append(head, crop);
    const button = document.createElement("button");
    button.type = "button";
    const word = document.createElement("small");
    word.textContent = "whole";
    button.append(cropSketch(layout), word);
    button.setAttribute("aria-label", `whole picture of camera ${layout.name}`);
    button.title = "whole picture";
    onPress(button, () => {
      if (!whole.delete(layout.name)) whole.add(layout.name);
      press();
    });
    caption.append(button, words);
    tile.append(canvas, caption);
    room.append(tile);
    tiles.push({ tile, canvas, head, button, layout, wholeMs: -Infinity, name: layout.name });
  }
  const press = () => {
    for (const { tile, button, name } of tiles) {
      button.setAttribute("aria-pressed", String(whole.has(name)));
      tile.classList.toggle("whole", whole.has(name));
    }
    look(tiles.flatMap(({ name }, index) => whole.has(name) ? [index] : []));
  };
  press();
}

// the part that the policy gets, on the whole picture: dark under light, to be seen on anything
function drawCrop(context, { captured, kept }) {
  const scale = context.canvas.width / captured[0];
  const [left, top, width, height] = kept.map((value) => value * scale);
  const line = context.canvas.width / 160;
  for (const [style, thickness] of [["#14171a", 2 * line], ["#ffe14d", line]]) {
    Object.assign(context, { strokeStyle: style, lineWidth: thickness });
    context.strokeRect(left + line, top + line, width - 2 * line, height - 2 * line);
  }
}

export function showCameras(cameras) {
  cameras.forEach((camera, index) => {
    const { tile, head } = tiles[index];
    const age = camera.age_ms === null ? "never seen" : `age ${camera.age_ms} ms`;
    head.textContent = `${camera.name}  ${camera.hz.toFixed(1)} Hz  ${age}${camera.old ? "  TOO OLD" : ""}`;
    head.className = camera.old ? "old-words" : "";
    tile.classList.toggle("old", camera.old);
  });
}

export async function showImage(index, jpeg) {
  const tile = tiles[index % WHOLE];
  if (!tile) return;
  if (index >= WHOLE) tile.wholeMs = performance.now();
  const wholeShown = whole.has(tile.name) && performance.now() - tile.wholeMs < WHOLE_MS;
  if (wholeShown !== (index >= WHOLE)) return;
  const picture = await createImageBitmap(new Blob([jpeg], { type: "image/jpeg" }));
  const canvas = tile.canvas;
  if (canvas.width !== picture.width || canvas.height !== picture.height) {
    [canvas.width, canvas.height] = [picture.width, picture.height];
  }
  const context = canvas.getContext("2d");
  context.drawImage(picture, 0, 0);
  if (index >= WHOLE) drawCrop(context, tile.layout);
  picture.close();
}
