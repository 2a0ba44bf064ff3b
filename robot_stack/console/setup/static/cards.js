// One camera: its picture, what it is used as, and the part of the picture that the policy gets.
const USES = ["wrist", "front", "side"];
const LEAST_PX = 16;

export class CameraCard {
  // `made` is what it was made of, `before` the card of the same camera that it takes the place of
  constructor({ key, called, said, problem, jpeg, take }, changed, fail, made, before) {
    this.made = made;
    this.key = key;
    this.said = said;
    this.usable = !problem;  // of what shows nothing nobody knows whether it can be used
    this.changed = changed;
    this.crop = before ? before.crop : null;
    this.size = null;
    this.element = document.createElement("li");
    const head = Object.assign(document.createElement("span"), { className: "called", textContent: called });
    this.view = Object.assign(document.createElement("div"), { className: "view" });
    this.image = Object.assign(document.createElement("img"), { alt: "", draggable: false });
    this.frame = Object.assign(document.createElement("div"), { className: "crop", hidden: true });
    this.view.append(this.image, this.frame);
    this.status = Object.assign(document.createElement("span"), { className: "soft", textContent: problem || "" });
    this.status.setAttribute("role", "status");
    this.select = document.createElement("select");
    this.select.setAttribute("aria-label", `${called} is used as`);
    this.select.append(new Option("not used", ""), ...USES.map((use) => new Option(use, use)));
    if (before) this.select.value = before.use;
    this.select.addEventListener("change", changed);
    const whole = Object.assign(document.createElement("button"), { type: "button", textContent: "whole picture" });
    whole.addEventListener("click", () => { this.crop = null; this.draw(); changed(); });
    const row = Object.assign(document.createElement("div"), { className: "row" });
    row.append(this.select, whole);
    if (take) {
      const again = Object.assign(document.createElement("button"), { type: "button", textContent: "picture" });
      again.addEventListener("click", () => this.take(take, fail));
      row.append(again);
      this.take(take, fail);
    } else if (jpeg) {
      this.show(new Blob([Uint8Array.from(atob(jpeg), (each) => each.charCodeAt(0))], { type: "image/jpeg" }));
    }
    this.element.append(head, this.view, this.status, row);
    this.listen();
  }

  get use() { return this.select.value; }

  // a use that its name says, or, of those that are left, the first; nothing where another camera has it
  suggest(cards, { byName }) {
    if (!this.usable || cards.some((card) => this.key === `${card.key}/compressed`)) return;
    const free = USES.filter((use) => !cards.some((card) => card !== this && card.use === use));
    this.select.value = free.find((use) => !byName || this.key.toLowerCase().includes(use)) || "";
  }

  async take(take, fail) {
    this.status.textContent = "taking a picture …";
    try {
      this.show(await take());
      this.status.textContent = "";
    } catch (error) {
      this.status.textContent = error.message;
      if (error.constructor.name === "TokenNeeded") fail(error);
    }
  }

  show(blob) {
    URL.revokeObjectURL(this.image.src);
    this.image.onload = () => {
      this.size = [this.image.naturalWidth, this.image.naturalHeight];
      this.draw();
      this.changed();
    };
    this.image.src = URL.createObjectURL(blob);
  }

  planned() {
    const size = this.said.topic && this.size && (this.size[0] !== 640 || this.size[1] !== 480) ? { size: this.size } : {};
    const given = Object.fromEntries(Object.entries(this.said).filter(([, value]) => value));
    return { ...given, ...size, ...(this.crop ? { crop: this.crop } : {}) };
  }

  draw() {
    this.frame.hidden = !this.crop || !this.size;
    if (this.frame.hidden) return;
    const share = (value, of) => `${100 * value / of}%`;
    Object.assign(this.frame.style, {
      left: share(this.crop.left, this.size[0]), top: share(this.crop.top, this.size[1]),
      width: share(this.crop.width, this.size[0]), height: share(this.crop.height, this.size[1]),
    });
  }

  // the policy's image is a square: so is what is drawn, in the picture's own pixels
  listen() {
    let from = null;
    const place = (event) => {
      const { left, top, width, height } = this.image.getBoundingClientRect();
      return [(event.clientX - left) / width * this.size[0], (event.clientY - top) / height * this.size[1]];
    };
    this.view.addEventListener("pointerdown", (event) => {
      if (!this.size) return;
      from = place(event);
      this.view.setPointerCapture(event.pointerId);
    });
    this.view.addEventListener("pointermove", (event) => {
      if (!from) return;
      const to = place(event);
      const [width, height] = this.size;
      const most = [to[0] < from[0] ? from[0] : width - from[0], to[1] < from[1] ? from[1] : height - from[1]];
      const side = Math.floor(Math.min(Math.max(Math.abs(to[0] - from[0]), Math.abs(to[1] - from[1])), ...most));
      if (side < LEAST_PX) return;
      const start = (at, toward) => Math.max(0, Math.round(toward < at ? at - side : at));
      this.crop = { left: start(from[0], to[0]), top: start(from[1], to[1]), width: side, height: side };
      this.crop.left = Math.min(this.crop.left, width - side);
      this.crop.top = Math.min(this.crop.top, height - side);
      this.draw();
    });
    const end = () => { if (from) { from = null; this.changed(); } };
    this.view.addEventListener("pointerup", end);
    this.view.addEventListener("pointercancel", end);
  }
}
