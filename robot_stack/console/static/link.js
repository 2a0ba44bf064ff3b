// The connection: one WebSocket, opened again as often as it breaks, and watched by the page's own clock. What is on the
// screen is told back to the server.
const AGAIN_MS = [300, 600, 1000, 2000, 3000];
const IMAGE_HEAD = 8;
const REPLACED = 4409, REFUSED = 4400;
const LOOK_MS = 100;
// the server says something ten times a second; silent for so long, nobody knows what is so
const SILENT_MS = 1000;
// a page that stood still itself hears first what came meanwhile
const LATE_MS = 400;
// a connection that says nothing for so long is given up, and another is opened
const ANEW_MS = 6000;

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

// The token in what an operator typed or pasted: it alone, or the whole address with it behind the mark.
export function tokenIn(text) {
  const words = text.trim();
  return decodeURIComponent(words.slice(words.indexOf("#") + 1));
}

export function tokenOfAddress() {
  if (location.hash.length <= 1) return "";
  const token = tokenIn(location.hash);
  history.replaceState(null, "", location.pathname);  // not to be seen over a shoulder, nor kept with the page
  return token;
}

export class Link {
  constructor(on) {
    this.on = on;  // welcome, state, image, notice, unsent, taken, silent, lost
    this.name = ownName();
    this.tries = 0;
    this.pressed = 0;
    this.sinceMs = this.heardMs = this.lookedMs = performance.now();
    this.late = false;
    this.silent = false;
    this.bye = null;
    this.got = { state: 0, image: 0 };
    this.shown = { state: 0, image: 0 };  // of that, what is on the screen
    this.telling = false;
    this.unanswered = new Map();  // notes of which the server has not said yet that they are kept
    this.use(tokenOfAddress() || sessionStorage.getItem("token") || "");
    addEventListener("hashchange", () => {  // the address was pasted anew into a page that is open
      const token = tokenOfAddress();
      if (token) this.enter(token);
    });
    document.addEventListener("visibilitychange", () => {
      this.heardMs = performance.now();
      if (document.hidden) this.tellUnseen();
    });
    setInterval(() => this.look(), LOOK_MS);
  }

  use(token) {
    this.token = token;
    sessionStorage.setItem("token", token);
  }

  // come in with a token that an operator gave
  enter(token) {
    this.use(token);
    this.abandon();
    this.open();
  }

  open() {
    clearTimeout(this.timer);
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(`${scheme}//${location.host}/ws`);
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    this.greeted = false;
    if (this.bye && this.bye.kind !== "ended") this.bye = null;  // how the run ended stays said
    this.heardMs = performance.now();
    socket.onopen = () => {
      const build = document.querySelector("meta[name=build]").content;
      this.send({ k: "hello", token: this.token, page: this.name, build });
    };
    socket.onmessage = (event) => this.hear(event.data);
    socket.onclose = (event) => this.closed(event);
  }

  get up() { return Boolean(this.socket && this.socket.readyState === WebSocket.OPEN && this.greeted && !this.silent); }

  get awayS() { return (performance.now() - this.sinceMs) / 1000; }

  send(message) {
    if (this.socket && this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  // what an operator wishes for, by what is on the screen: the server refuses it if that is old when it arrives
  act(message) {
    if (this.up) this.send({ ...message, state: this.shown.state });
    else this.on.unsent("Not sent: the server does not answer. Only HOLD and STOP are sent again once it does.");
  }

  // a note is meant whenever it comes: it is sent anew after each loss of the connection, until the server has answered
  write(episode, text) {
    this.pressed += 1;
    const message = { k: "write", episode, text, n: this.pressed };
    this.unanswered.set(message.n, message);
    this.send(message);
    if (!this.up) this.on.unsent("The note is not sent yet: the server does not answer. It is sent once it does.");
  }

  // HOLD or STOP, which is sent whatever is shown; the number with which the server will confirm that it was taken
  press(what) {
    this.pressed += 1;
    this.send({ k: "press", what, n: this.pressed });
    return this.pressed;
  }

  hear(data) {
    if (data instanceof ArrayBuffer) {
      const head = new DataView(data);
      const done = () => this.tell("image", head.getUint32(0, true));
      this.on.image(head.getUint16(4, true), data.slice(IMAGE_HEAD)).then(done, done);
      return;
    }
    const message = JSON.parse(data);
    if (message.k !== "state") this.unanswered.delete(message.n);
    if (message.k === "welcome") {
      this.heard();
      this.bye = null;
      this.greeted = true;
      this.tries = 0;
      this.got = { state: 0, image: 0 };
      this.shown = { ...this.got };
      this.on.welcome(message);
      for (const note of this.unanswered.values()) this.send(note);
    } else if (message.k === "state") {
      this.heard();
      this.on.state(message.parts);
      this.tell("state", message.n);
    } else if (message.k === "bye") {
      this.bye = message;
    } else if (message.k === "taken") {
      this.on.taken(message.n);
    } else {
      this.on.notice(message.text);
    }
  }

  heard() {
    this.heardMs = this.sinceMs = performance.now();
    this.silent = false;
  }

  // once the browser has drawn it
  tell(kind, number) {
    this.got[kind] = Math.max(this.got[kind], number);
    if (document.hidden) {
      if (kind === "state") this.tellUnseen();
      return;
    }
    this.shown = { ...this.got };
    if (this.telling) return;
    this.telling = true;
    requestAnimationFrame(() => {
      this.telling = false;
      if (!document.hidden) this.send({ k: "seen", ...this.shown });
    });
  }

  // a page out of view draws nothing, but goes on to be sent states, by which it calls its operator
  tellUnseen() {
    if (this.greeted) this.send({ k: "seen", state: this.got.state, image: this.shown.image, in_view: false });
  }

  look() {
    const now = performance.now();
    const late = now - this.lookedMs > LATE_MS;
    const believed = !late || this.late;
    [this.lookedMs, this.late] = [now, late];
    if (!believed || !this.socket) return;
    const silentMs = now - this.heardMs;
    if (this.greeted && silentMs > SILENT_MS) {
      this.silent = true;
      this.on.silent();
    }
    if (silentMs > ANEW_MS) {
      this.abandon();
      this.open();
    }
  }

  // a connection that nobody answers may take minutes to close by itself
  abandon() {
    const socket = this.socket;
    this.socket = null;
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
  }

  closed(event) {
    this.greeted = this.silent = false;
    this.socket = null;
    const final = event.code === REPLACED || (event.code === REFUSED && this.bye !== null);
    this.on.lost(this.bye, final);
    if (final) return;
    const wait = AGAIN_MS[Math.min(this.tries++, AGAIN_MS.length - 1)];
    this.timer = setTimeout(() => this.open(), wait);
  }
}
