// Rates, ages, counts, and the log; all of it as text for whoever is asked for help.
let lines = [];
let log = [];

const clock = (seconds) => new Date(1000 * seconds).toTimeString().slice(0, 8);

export function showFigures(figures) {
  const body = document.querySelector("#figures tbody");
  lines = figures;
  while (body.rows.length < figures.length) {
    const row = body.insertRow();
    const name = document.createElement("th");
    name.scope = "row";
    row.append(name);
    row.insertCell();
  }
  while (body.rows.length > figures.length) body.deleteRow(-1);
  figures.forEach((figure, index) => {
    const row = body.rows[index];
    row.className = figure.over ? "over" : "";
    row.cells[0].textContent = figure.name;
    if (row.cells[1].textContent !== figure.text) row.cells[1].textContent = figure.text;
  });
}

export function showLog(rows) {
  log = rows;
  const list = document.querySelector("#log ul");
  list.replaceChildren(...[...rows].reverse().map((row) => {
    const item = document.createElement("li");
    const time = document.createElement("time");
    time.textContent = clock(row.at);
    item.append(time, row.text);
    return item;
  }));
}

export function allText() {
  const text = (id) => document.getElementById(id).textContent;
  return [
    `${text("word")}. ${text("why")} ${text("do")}`,
    ...lines.map((figure) => `${figure.over ? "! " : "  "}${figure.name}: ${figure.text}`),
    ...log.map((row) => `${clock(row.at)} ${row.text}`),
  ].join("\n");
}

export async function copy(text) {
  if (navigator.clipboard && isSecureContext) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");  // over plain http beyond this machine there is no clipboard
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}
