// What the policy sees, pixel for pixel, and beside it which part of the camera's picture that is.
const tiles = [];

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

export function layCameras(layouts) {
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
    caption.append(cropSketch(layout), words);
    tile.append(canvas, caption);
    room.append(tile);
    tiles.push({ tile, canvas, head, name: layout.name });
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
  const tile = tiles[index];
  if (!tile) return;
  const picture = await createImageBitmap(new Blob([jpeg], { type: "image/jpeg" }));
  const canvas = tile.canvas;
  if (canvas.width !== picture.width || canvas.height !== picture.height) {
    [canvas.width, canvas.height] = [picture.width, picture.height];
  }
  canvas.getContext("2d").drawImage(picture, 0, 0);
  picture.close();
}
