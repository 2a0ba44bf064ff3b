// The connection: one WebSocket, opened again as often as it breaks. What is on the screen is told back to the server.
const AGAIN_MS = [300, 600, 1000, 2000, 3000];
const IMAGE_HEAD = 8;
const REPLACED = 4409, REFUSED = 4400;

function ownName() {
  let name = sessionStorage.getItem("page");
  if (!name) {
    const random = new Uint32Array(2);
    crypto.getRandomValues(random);
    name = [...random].map((part) => part.toString(36)).join("");
    sessionStorage.setItem("page", name);
  }
  return name;
}

function ownToken() {
  const given = decodeURIComponent(location.hash.slice(1));
  if (given) {
    sessionStorage.setItem("token", given);
    history.replaceState(null, "", location.pathname);  // not to be seen over a shoulder, nor kept with the page
  }
  return sessionStorage.getItem("token") || "";
}

export class Link {
  constructor(on) {
    this.on = on;  // welcome, state, image, notice, lost
    this.name = ownName();
    this.token = ownToken();
    this.tries = 0;
    this.since = performance.now();
    this.closing = "";
    this.shown = { state: 0, image: 0 };
    this.telling = false;
  }

  open() {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(`${scheme}//${location.host}/ws`);
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    this.closing = "";
    socket.onopen = () => {
      const build = document.querySelector("meta[name=build]").content;
      this.send({ k: "hello", token: this.token, page: this.name, build });
    };
    socket.onmessage = (event) => this.hear(event.data);
    socket.onclose = (event) => this.closed(event);
  }

  get up() { return this.socket && this.socket.readyState === WebSocket.OPEN && this.greeted; }

  send(message) {
    if (this.socket && this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  hear(data) {
    if (data instanceof ArrayBuffer) {
      const head = new DataView(data);
      const done = () => this.tell("image", head.getUint32(0, true));
      this.on.image(head.getUint16(4, true), data.slice(IMAGE_HEAD)).then(done, done);
      return;
    }
    const message = JSON.parse(data);
    if (message.k === "welcome") {
      this.greeted = true;
      this.tries = 0;
      this.shown = { state: 0, image: 0 };
      this.on.welcome(message);
    } else if (message.k === "state") {
      this.on.state(message.parts);
      this.tell("state", message.n);
    } else if (message.k === "bye") {
      this.closing = message.text;
    } else {
      this.on.notice(message.text);
    }
  }

  // once the browser has drawn it: a page out of view draws nothing, and so says nothing
  tell(kind, number) {
    this.shown[kind] = Math.max(this.shown[kind], number);
    if (this.telling) return;
    this.telling = true;
    requestAnimationFrame(() => {
      this.telling = false;
      this.send({ k: "seen", ...this.shown });
    });
  }

  closed(event) {
    if (this.greeted) this.since = performance.now();
    this.greeted = false;
    this.socket = null;
    const final = event.code === REPLACED || (event.code === REFUSED && this.closing);
    this.on.lost(this.closing, final);
    if (final) return;
    const wait = AGAIN_MS[Math.min(this.tries++, AGAIN_MS.length - 1)];
    setTimeout(() => this.open(), wait);
  }
}
