// The line of what is said to the operator. While a HOLD or a STOP is not confirmed, that stands there.
const SHOWN_MS = 8000;
const MOST_WAITING = 5;

export class Notices {
  // `doubt()` is what is said of presses that are not confirmed, "" while there is none
  constructor(element, doubt) {
    this.element = element;
    this.doubt = doubt;
    this.doubted = "";
    this.waiting = [];
    this.timer = 0;
  }

  // of what the operator has just done: beside a doubt, at once
  say(text) { this.show([this.doubt(), text].filter(Boolean).join(" ")); }

  // of anything else: after the doubt, once
  later(text) {
    if (!this.doubt()) this.show(text);
    else if (!this.waiting.includes(text)) this.waiting = [...this.waiting, text].slice(-MOST_WAITING);
  }

  // call it often: a doubt has come, changed or gone
  settle() {
    const doubt = this.doubt();
    if (doubt === this.doubted) return;
    this.doubted = doubt;
    const text = doubt || this.waiting.join(" ");
    if (!doubt) this.waiting = [];
    if (text) this.show(text);
    else this.hide();
  }

  show(text) {
    this.element.textContent = text;
    this.element.hidden = false;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => (this.doubted ? this.show(this.doubted) : this.hide()), SHOWN_MS);
  }

  hide() {
    clearTimeout(this.timer);
    this.element.hidden = true;
  }
}
