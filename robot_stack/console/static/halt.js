// HOLD and STOP: always in the same place, sent whatever state the page is in, and each confirmed or said not to be.
const CONFIRM_MS = 1500, LOOK_MS = 100;
// pressed longer ago than this, it is not sent again when the server is found again
const KEPT_MS = 60000;
const WORDS = { hold: "HOLD", stop: "STOP" };
// the modes of the cell in which a press has had its effect
const STANDS = { hold: ["hold", "stop", "disarmed"], stop: ["stop"] };

const doubted = (what) => `${WORDS[what]} is not confirmed: nobody knows whether it arrived. ` +
  "Use the device at the robot, or its emergency stop.";
const clock = () => new Date().toTimeString().slice(0, 8);

export class Halt {
  // `settle()` is called when `doubts` may have changed
  constructor(link, settle) {
    this.link = link;
    this.settle = settle;
    this.over = false;
    this.pending = new Map();
    this.confirmed = new Set();
    for (const what of Object.keys(WORDS)) {
      document.getElementById(what).addEventListener("click", () => this.press(what));
    }
    setInterval(() => this.look(), LOOK_MS);
  }

  takes(what) { return what in WORDS; }

  // what is said of presses that are not confirmed; after a while their buttons alone say it
  get doubts() {
    const fresh = [...this.pending].filter(([, press]) => press.told && performance.now() - press.sinceMs < KEPT_MS);
    return fresh.map(([what]) => doubted(what)).join(" ");
  }

  // the caps of the keys, from the server's key table
  lay(keys) {
    for (const what of Object.keys(WORDS)) document.querySelector(`#${what} kbd`).textContent = keys[what].toUpperCase();
    this.again();
  }

  press(what) {
    const n = this.link.press(what);
    if (this.over) return;  // no cell is left that could confirm it
    const told = Boolean(this.pending.get(what)?.told);  // pressed again, it is as doubtful as before
    this.pending.set(what, { n, sinceMs: performance.now(), taken: false, told });
    this.confirmed.delete(what);
    if (!told) this.show(what, "sent", "sent");
    if (!this.link.up) this.doubt(what);
  }

  // the server has passed it on; what counts is what the safety process says then
  taken(n) {
    for (const press of this.pending.values()) if (press.n === n) press.taken = true;
  }

  state(mode, over) {
    this.over = over;
    if (over) {
      for (const what of this.pending.keys()) this.show(what, "", "");
      this.pending.clear();
    }
    for (const [what, press] of this.pending) {
      if (!press.taken || !STANDS[what].includes(mode)) continue;
      this.pending.delete(what);
      this.confirmed.add(what);
      this.show(what, "confirmed", `confirmed ${clock()}`);
    }
    for (const what of this.confirmed) {
      if (STANDS[what].includes(mode)) continue;
      this.confirmed.delete(what);
      this.show(what, "", "");
    }
    this.settle();
  }

  look() {
    for (const [what, press] of this.pending) {
      if (!press.told && performance.now() - press.sinceMs > CONFIRM_MS) this.doubt(what);
    }
    this.settle();
  }

  // said on the button, where it stays until the press is confirmed, and in a sentence
  doubt(what) {
    this.pending.get(what).told = true;
    this.show(what, "doubt", "NOT CONFIRMED");
    this.settle();
  }

  // the server is there again: what it may never have heard is sent once more
  again() {
    for (const [what, press] of this.pending) {
      if (performance.now() - press.sinceMs > KEPT_MS) continue;
      press.n = this.link.press(what);
      press.taken = false;
    }
  }

  show(what, state, text) {
    const button = document.getElementById(what);
    button.dataset.state = state;
    const said = button.querySelector("small");
    if (said.textContent !== text) said.textContent = text;
  }
}
