// One episode on the scrubber: which frame is shown where, by time or by progress.
export class Track {
  constructor(episode, version) {
    this.episode = episode;
    this.seconds = episode.t[episode.t.length - 1];
    this.use(version);
  }

  // progress by one version of the reward model: the highest Φ up to each frame; null where none has scored it
  use(version) {
    const { scores } = this.episode;
    this.scores = scores.find((each) => each.version === version) || scores[0] || null;
    let best = 0;
    this.highest = this.scores && this.scores.progress.map((phi) => { best = Math.max(best, phi ?? 0); return best; });
  }

  get top() { return this.highest ? this.highest[this.highest.length - 1] : 0; }

  // the frame at a moment `at`: seconds, or Φ
  frameAt(at, by) {
    const values = by === "progress" ? this.highest : this.episode.t;
    let [low, high] = [0, values.length - 1];
    while (low < high) {  // by time the last frame that has begun, by progress the first that has reached it
      const middle = Math.floor((low + high + (by === "progress" ? 0 : 1)) / 2);
      if (by === "progress") { if (values[middle] >= at - 1e-9) high = middle; else low = middle + 1; }
      else if (values[middle] <= at + 1e-6) low = middle; else high = middle - 1;
    }
    return low;
  }

  at(frame, by) { return (by === "progress" ? this.highest : this.episode.t)[frame]; }

  who(frame) { return this.episode.source[Math.min(frame, this.episode.source.length - 1)]; }
}

// who was in control, as [source, first step, step behind the last]
export function spansOf(source) {
  const found = [];
  source.forEach((who, step) => {
    const newest = found[found.length - 1];
    if (newest && newest[0] === who) newest[2] = step + 1;
    else found.push([who, step, step + 1]);
  });
  return found;
}
