// Plays the frames of an episode out of one picture, with the cursor of its curves beside them.
for (const figure of document.querySelectorAll("figure.play")) {
  const film = JSON.parse(figure.querySelector("script").textContent);
  const canvas = figure.querySelector("canvas"), slider = figure.querySelector("input");
  const button = figure.querySelector("button"), cursor = figure.querySelector(".cursor");
  const said = figure.querySelector("output"), picture = new Image();
  let timer = null;

  const show = () => {
    const index = Number(slider.value), column = index % film.columns, row = (index - column) / film.columns;
    const [width, height] = [canvas.width, canvas.height];
    canvas.getContext("2d").drawImage(picture, column * width, row * height, width, height, 0, 0, width, height);
    const at = film.last ? (100 * index) / film.last : 0;
    cursor.setAttribute("x1", at);
    cursor.setAttribute("x2", at);
    said.textContent = `${(index * film.period_s).toFixed(1)} s  ${film.who[index]}`;
  };
  const stop = () => {
    clearInterval(timer);
    timer = null;
    button.textContent = "▶";
    button.setAttribute("aria-label", "play");
  };
  const play = () => {
    if (Number(slider.value) >= film.last) slider.value = 0;
    button.textContent = "❚❚";
    button.setAttribute("aria-label", "pause");
    timer = setInterval(() => {
      slider.value = Number(slider.value) + 1;
      show();
      if (Number(slider.value) >= film.last) stop();
    }, 1000 * film.period_s);
  };
  button.addEventListener("click", () => (timer === null ? play() : stop()));
  slider.addEventListener("input", () => {
    if (timer !== null) stop();
    show();
  });
  picture.addEventListener("load", show);
  picture.src = film.picture;
}
