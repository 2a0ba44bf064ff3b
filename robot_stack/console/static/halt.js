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
  constructor(link, say, withdraw) {
    this.link = link;
    this.say = say;
    this.withdraw = withdraw;
    this.pending = new Map();
    this.confirmed = new Set();
    for (const what of Object.keys(WORDS)) {
      document.getElementById(what).addEventListener("click", () => this.press(what));
    }
    setInterval(() => this.look(), LOOK_MS);
  }

  takes(what) { return what in WORDS; }

  // whether a press is said not to be confirmed: no other sentence may take the place of that
  get doubts() { return [...this.pending.values()].some((press) => press.told); }

  // the caps of the keys, from the server's key table
  lay(keys) {
    for (const what of Object.keys(WORDS)) document.querySelector(`#${what} kbd`).textContent = keys[what].toUpperCase();
    this.again();
  }

  press(what) {
    this.pending.set(what, { n: this.link.press(what), sinceMs: performance.now(), taken: false, told: false });
    this.confirmed.delete(what);
    this.show(what, "sent", "sent");
    if (!this.link.up) this.doubt(what);
  }

  // the server has passed it on; what counts is what the safety process says then
  taken(n) {
    for (const press of this.pending.values()) if (press.n === n) press.taken = true;
  }

  state(mode) {
    for (const [what, press] of this.pending) {
      if (!press.taken || !STANDS[what].includes(mode)) continue;
      this.pending.delete(what);
      this.confirmed.add(what);
      this.show(what, "confirmed", `confirmed ${clock()}`);
      this.withdraw(doubted(what));
    }
    for (const what of this.confirmed) {
      if (STANDS[what].includes(mode)) continue;
      this.confirmed.delete(what);
      this.show(what, "", "");
    }
  }

  look() {
    for (const [what, press] of this.pending) {
      if (!press.told && performance.now() - press.sinceMs > CONFIRM_MS) this.doubt(what);
    }
  }

  // said on the button, where it stays until the press is confirmed, and in a sentence
  doubt(what) {
    this.pending.get(what).told = true;
    this.show(what, "doubt", "NOT CONFIRMED");
    this.say(doubted(what));
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
