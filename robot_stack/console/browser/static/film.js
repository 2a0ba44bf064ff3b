// Frames of one episode, fetched a second at a time; only the newest few seconds stay in memory, as JPEG.
import { episodePath, getBytes } from "./api.js";

const KEPT = 8, AHEAD = 2;

function cut(buffer, cameras) {
  const view = new DataView(buffer);
  const images = [];
  for (let at = 0; at < buffer.byteLength;) {
    const length = view.getUint32(at, true);
    images.push(new Blob([new Uint8Array(buffer, at + 4, length)], { type: "image/jpeg" }));
    at += 4 + length;
  }
  const frames = [];
  for (let at = 0; at < images.length; at += cameras) frames.push(images.slice(at, at + cameras));
  return frames;
}

export class Film {
  constructor(episode, onRange) {
    this.episode = episode;
    this.onRange = onRange;  // called with an error, or with nothing
    this.ranges = new Map();
    this.asked = new Map();
    this.last = Math.floor((episode.t.length - 1) / episode.range);
  }

  // the JPEGs of a frame, one a camera; null until they have come
  frame(index) {
    if (!this.episode.cameras.length) return [];
    const range = Math.floor(index / this.episode.range);
    this.forget(range);
    for (let each = range; each <= Math.min(range + AHEAD, this.last); each += 1) this.want(each);
    const frames = this.ranges.get(range);
    if (!frames) return null;
    this.ranges.delete(range);
    this.ranges.set(range, frames);  // the newest used
    return frames[index - range * this.episode.range];
  }

  async want(range) {
    if (this.ranges.has(range) || this.asked.has(range)) return;
    const stop = new AbortController();
    this.asked.set(range, stop);
    try {
      const buffer = await getBytes(`${episodePath(this.episode.id)}/frames/${range}`, stop.signal);
      this.ranges.set(range, cut(buffer, this.episode.cameras.length));
      while (this.ranges.size > KEPT) this.ranges.delete(this.ranges.keys().next().value);
      this.onRange();
    } catch (error) {
      if (error.name !== "AbortError") this.onRange(error);
    } finally {
      if (this.asked.get(range) === stop) this.asked.delete(range);
    }
  }

  // what was asked for and is scrubbed past keeps nobody waiting
  forget(range) {
    for (const [each, stop] of this.asked) {
      if (Math.abs(each - range) <= AHEAD) continue;
      this.asked.delete(each);
      stop.abort();
    }
  }

  close() {
    for (const stop of this.asked.values()) stop.abort();
    this.ranges.clear();
  }
}

// The canvases of one episode's cameras.
export class Screen {
  constructor(episode, caption) {
    this.root = document.createElement("figure");
    this.root.className = "film";
    const title = document.createElement("figcaption");
    title.textContent = caption;
    const row = document.createElement("div");
    row.className = "cameras";
    this.canvases = episode.cameras.map((camera) => {
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [camera.width, camera.height];
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", `camera ${camera.name} of episode ${episode.id}`);
      const frame = document.createElement("div");
      const name = document.createElement("span");
      name.textContent = camera.name;
      frame.append(canvas, name);
      row.append(frame);
      return canvas;
    });
    this.root.append(title, row);
    this.drawn = 0;
  }

  async draw(images) {
    this.drawn += 1;
    const turn = this.drawn;
    const bitmaps = await Promise.all(images.map((image) => createImageBitmap(image)));
    if (turn === this.drawn) {
      this.canvases.forEach((canvas, index) => canvas.getContext("2d").drawImage(bitmaps[index], 0, 0));
    }
    for (const bitmap of bitmaps) bitmap.close();
  }
}
