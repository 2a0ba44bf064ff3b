// Tells what the curves of a plot are where the pointer is, or where the slider below it stands.
const SLACK = 0.01; // share of a picture's width by which the first and the last place may be missed
for (const figure of document.querySelectorAll("figure.plot[data-title]")) {
  const view = figure.firstElementChild;
  const groups = JSON.parse(figure.querySelector("script").textContent);
  const places = groups.flatMap((group) => group.x.map((x, index) => ({ x, index, group })));
  const put = (parent, tag, name) => {
    const element = parent.appendChild(document.createElement(tag));
    if (name) element.className = name;
    return element;
  };
  const percent = (share) => `${100 * share}%`;
  const marks = put(view, "div", "marks"), slider = put(figure, "input");
  Object.assign(slider, { type: "range", min: 0, max: places.length - 1, value: 0 });
  const left = Math.min(...groups.map(({ box }) => box[0])), right = Math.max(...groups.map(({ box }) => box[2]));
  Object.assign(slider.style, { marginLeft: percent(left), width: percent(right - left) });
  slider.setAttribute("aria-label", `values of the plot: ${figure.dataset.title}`);

  const told = ({ index, group }) => group.curves.filter((curve) => curve.y[index] !== null);
  const said = (curve, index) => `${curve.name} ${curve.values[index]}`;
  const words = (place) =>
    [place.group.where[place.index], ...told(place).map((curve) => said(curve, place.index))].join("; ");
  const hide = () => marks.replaceChildren();
  const show = () => {
    const place = places[slider.value], [left, top, right, bottom] = place.group.box;
    hide();
    const line = put(marks, "i", "line");
    Object.assign(line.style, { left: percent(place.x), top: percent(top), height: percent(bottom - top) });
    const tip = put(marks, "div", "tip"), late = place.x > (left + right) / 2;
    tip.style[late ? "right" : "left"] = percent(late ? 1 - place.x : place.x);
    tip.style.top = percent(top);
    put(tip, "b").textContent = place.group.where[place.index];
    for (const curve of told(place)) {
      const dot = put(marks, "i", "dot"), row = put(tip, "span");
      const y = Math.min(Math.max(curve.y[place.index], top), bottom);
      Object.assign(dot.style, { left: percent(place.x), top: percent(y), background: curve.colour });
      put(row, "i").style.background = curve.colour;
      row.append(said(curve, place.index));
    }
    slider.setAttribute("aria-valuetext", words(place));
  };

  const point = (event) => {
    const area = view.getBoundingClientRect();
    const x = (event.clientX - area.left) / area.width, y = (event.clientY - area.top) / area.height;
    const near = ({ box }) => box[0] - SLACK <= x && x <= box[2] + SLACK && box[1] <= y && y <= box[3];
    const group = groups.find(near);
    if (!group) return hide();
    const away = (number) => (places[number].group === group ? Math.abs(places[number].x - x) : Infinity);
    slider.value = places.reduce((best, _, number) => (away(number) < away(best) ? number : best), 0);
    show();
  };
  view.addEventListener("pointermove", point);
  view.addEventListener("pointerdown", point);
  view.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && hide());
  slider.addEventListener("input", show);
  slider.addEventListener("focus", () => slider.matches(":focus-visible") && show());
  slider.addEventListener("blur", hide);
  document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
  document.addEventListener("pointerdown", (event) => !figure.contains(event.target) && hide());
  slider.setAttribute("aria-valuetext", words(places[0]));
}
